// ConfigFile: finds and loads `gen-durable.config.*`. What it exports is checked by core/src/config/, not here.

import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { UsageError } from "#core/errors.js";
import { compileFiles, shortPath } from "./compile.js";

/** In the order of preference where a folder has several. */
const NAMES = [
  "gen-durable.config.ts",
  "gen-durable.config.mts",
  "gen-durable.config.js",
  "gen-durable.config.mjs",
] as const;

export interface ConfigFile {
  /** The file, or undefined: the folder has none. */
  path: string | undefined;
  /** The project's folder: the file's, or the one that was looked in. Globs are relative to it. */
  folder: string;
  /** Its default export; an empty object without a file. */
  value: unknown;
}

/**
 * Loads the configuration of `cwd`, or the one that `explicit` names (a file, or a folder that has one).
 * @throws UsageError when the named file does not exist, cannot be compiled, throws, or has no default export.
 */
export async function loadConfigFile(cwd: string, explicit?: string): Promise<ConfigFile> {
  const path = findConfigFile(cwd, explicit);
  if (path === undefined) return { path, folder: cwd, value: {} };
  const folder = dirname(path);
  const file = /\.m?ts$/.test(path) ? ((await compileFiles([path], folder)).get(path) ?? path) : path;
  const exports = await importModule(path, file);
  if (exports.default === undefined || exports.default === null) {
    throw new UsageError(
      "CONFIG_EXPORT",
      `${shortPath(path)} has no default export: it needs \`export default defineConfig({ ... })\``,
    );
  }
  return { path, folder, value: exports.default };
}

/** The configuration file's path, or undefined when the folder has none and none was named. */
export function findConfigFile(cwd: string, explicit?: string): string | undefined {
  if (explicit === undefined) return NAMES.map((name) => join(cwd, name)).find((path) => existsSync(path));
  const path = resolve(cwd, explicit);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) throw new UsageError("CONFIG_MISSING", `--config: ${path} does not exist`);
  if (!stats.isDirectory()) return path;
  const found = NAMES.map((name) => join(path, name)).find((candidate) => existsSync(candidate));
  if (found === undefined)
    throw new UsageError("CONFIG_MISSING", `--config: ${path} has none of ${NAMES.join(", ")}`);
  return found;
}

/** Imports `file`, which `source` was compiled to. @throws UsageError that names the source when it cannot be. */
export async function importModule(source: string, file: string): Promise<Record<string, unknown>> {
  try {
    return (await import(pathToFileURL(file).href)) as Record<string, unknown>;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError("MODULE_THREW", `${shortPath(source)} cannot be loaded: ${describeThrown(error)}`, {
      cause: error,
    });
  }
}

/** A message, and where it came from: a syntax error's first stack line is its place, any other's the first frame. */
function describeThrown(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const [first = "", ...frames] = (error.stack ?? "").split("\n");
  const place = /^file:|^\//.test(first) ? first : frames.find((line) => /^\s+at /.test(line))?.trim();
  return place === undefined || place.includes("node:internal")
    ? `${error.name}: ${error.message}`
    : `${error.name}: ${error.message} (${place.replace(/^at /, "")})`;
}
