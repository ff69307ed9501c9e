// Load: imports the modules that export definitions, once a thread.

import { pathToFileURL } from "node:url";
import { definitionsOf } from "#core/definition/definition.js";
import { DefinitionRegistry } from "#core/definition/registry.js";
import { GenDurableError, UsageError } from "#core/errors.js";
import { describeError } from "#core/errorText.js";
import type { DefinitionModule } from "#core/settings.js";

/**
 * Imports every module and collects what it exports. Modules that export no definition are fine: a glob may catch one.
 * @throws UsageError naming the file: it cannot be imported, or a definition in it is refused
 */
export async function loadDefinitions(modules: readonly DefinitionModule[]): Promise<DefinitionRegistry> {
  const registry = new DefinitionRegistry();
  for (const { source, file } of modules) {
    for (const definition of definitionsOf(await importModule(source, file)))
      registry.add(definition, source);
  }
  return registry;
}

async function importModule(source: string, file: string): Promise<object> {
  try {
    const exports: unknown = await import(pathToFileURL(file).href);
    return typeof exports === "object" && exports !== null ? exports : {};
  } catch (error) {
    const code =
      error instanceof GenDurableError ? error.code.replace("ERR_GEN_DURABLE_", "") : "MODULE_LOAD";
    throw new UsageError(code, `${source} cannot be loaded: ${describeError(error)}`, {
      path: source,
      cause: error,
    });
  }
}
