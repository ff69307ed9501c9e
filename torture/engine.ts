// Engine: the build that is tortured, and the machines that run on it: a copy of the repository's own, made when a run
// begins, so that nothing that is built or edited meanwhile changes it. The harness takes command and client from there.

import { cpSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Client, ClientOptions } from "gen-durable";

export interface Engine {
  bin: string;
  /** The modules of the machines. */
  machines: string[];
  createClient(options: ClientOptions): Client;
  /** Removes the copy. */
  remove(): void;
}

const MACHINES = ["chain", "poison", "waiting", "family", "sabotage"];

let copies = 0;

/**
 * Copies package and machines into a folder of the repository, where the packages they need are found. `change` may alter
 * the copy's `dist` before it is loaded.
 */
export async function copyEngine(change?: (dist: string) => void): Promise<Engine> {
  const folder = resolve(`.cache/torture-${++copies}-${process.pid}`);
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    remove();
    const own = join(folder, "package");
    mkdirSync(join(folder, "node_modules"), { recursive: true });
    for (const part of ["bin", "dist", "package.json"])
      cpSync(join("packages/cli", part), join(own, part), { recursive: true });
    cpSync("torture/machines", join(folder, "machines"), { recursive: true });
    symlinkSync("../package", join(folder, "node_modules/gen-durable"));
    change?.(join(own, "dist"));
    const module = (await import(pathToFileURL(join(own, "dist/cli/index.js")).href)) as {
      createClient: Engine["createClient"];
    };
    return {
      bin: join(own, "bin/gen-durable.js"),
      machines: MACHINES.map((name) => join(folder, "machines", `${name}.ts`)),
      createClient: module.createClient,
      remove,
    };
  } catch (error) {
    remove();
    throw error;
  }
}
