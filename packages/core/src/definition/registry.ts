// Registry: the machines that one thread has loaded, by name and version.

import { createHash } from "node:crypto";
import { UsageError } from "../errors.js";
import type { CatalogueEntry } from "../protocol/executor.js";
import type { KnownFsms } from "./decide.js";
import type { FsmDefinition, RuntimeFsm } from "./definition.js";

interface Entry {
  definition: FsmDefinition;
  source: string;
}

export class DefinitionRegistry implements KnownFsms {
  readonly #versions = new Map<string, Map<number, Entry>>();

  /**
   * Adds a definition that the file `source` exports. The same object may be exported by several files.
   * @throws UsageError DUPLICATE_DEFINITION, naming both files
   */
  add(definition: FsmDefinition, source: string): void {
    const { name, version } = definition.runtime;
    const versions = this.#versions.get(name) ?? new Map<number, Entry>();
    const known = versions.get(version);
    if (known?.definition === definition) return;
    if (known !== undefined) throw duplicate(name, version, known.source, source);
    versions.set(version, { definition, source });
    this.#versions.set(name, versions);
  }

  get(name: string, version: number): RuntimeFsm | undefined {
    return this.#versions.get(name)?.get(version)?.definition.runtime;
  }

  /** The highest version of this name. */
  latest(name: string): RuntimeFsm | undefined {
    const versions = this.#versions.get(name);
    return versions?.get(Math.max(...versions.keys()))?.definition.runtime;
  }

  names(): readonly string[] {
    return [...this.#versions.keys()];
  }

  /** What the definitions promise, by name and version: what the coordinator and the catalogue table need. */
  catalogue(): CatalogueEntry[] {
    return this.#entries().map(({ definition: { runtime }, source }) => ({
      name: runtime.name,
      version: runtime.version,
      queue: runtime.queue,
      initialStep: runtime.initialStep,
      steps: [...runtime.steps.values()].map(({ name, timeoutMs, rerunAfterCrash }) => ({
        name,
        timeoutMs,
        rerunAfterCrash,
      })),
      onCancel: runtime.onCancel,
      source,
    }));
  }

  /** Equal for two threads that loaded the same definitions with the same step code. */
  digest(): string {
    const hash = createHash("sha256");
    const code = this.#entries().map(({ definition: { runtime } }) => [
      [...runtime.steps.values()].map((step) => String(step.run)),
      String(runtime.handle),
      runtime.inline,
    ]);
    const promises = this.catalogue().map(({ source: _, ...entry }) => entry);
    return hash.update(JSON.stringify([promises, code])).digest("hex");
  }

  #entries(): Entry[] {
    const entries = [...this.#versions.values()].flatMap((versions) => [...versions.values()]);
    return entries.sort(({ definition: left }, { definition: right }) =>
      left.name === right.name ? left.version - right.version : left.name < right.name ? -1 : 1,
    );
  }
}

function duplicate(name: string, version: number, first: string, second: string): UsageError {
  const where = first === second ? `twice in ${first}` : `in ${first} and in ${second}`;
  return new UsageError(
    "DUPLICATE_DEFINITION",
    `FSM "${name}" version ${version} is defined ${where}; give one of them another name or version`,
    { fsm: name, version, sources: [first, second] },
  );
}
