// Compile: turns a project's TypeScript modules into JavaScript, once a start, so that every executor thread imports the
// same files. Bare imports stay imports and resolve from the project, because the output lies inside it.
// O1  An output folder is named by its content and appears in one rename: whole or not there, never overwritten.
// O2  A folder that a living process uses is not removed: threads that are respawned import from it again.

import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname } from "node:os";
import { dirname, join, relative, resolve, sep } from "node:path";
import type { BuildFailure, BuildResult, Message } from "esbuild";
import { glob } from "tinyglobby";
import { UsageError } from "#core/errors.js";
import type { DefinitionModule } from "#core/settings.js";
import { externalPackages } from "./compilePackages.js";
import { originalPlaces } from "./compilePlaces.js";

const TYPESCRIPT = /\.(ts|mts|cts|tsx)$/;
const JAVASCRIPT = /\.(js|mjs|cjs)$/;
const DECLARATION = /\.d\.[cm]?ts$/;
/** The output's depth below the project is the same whatever its hash, so that source maps stay right. */
const UNNAMED = "0000000000000000";
const NEVER = ["**/node_modules/**", "**/.gen-durable/**"];
/** Messages of a failed build that are shown. */
const MESSAGES_MAX = 10;
/** An unused folder stays as long, for a process that is about to mark it. */
const UNUSED_MS = 3_600_000;
/** A mark by another machine or container on a shared disk cannot be checked; it counts as long. */
const FOREIGN_MARK_MS = 7 * 86_400_000;
const MARKS = "in-use";

/**
 * The definition modules that `patterns` name, relative to `folder`, ready to import: TypeScript compiled, JavaScript as
 * it is. Patterns that begin with `!` take away.
 * @throws UsageError when a pattern matches nothing, or a module cannot be compiled or its output not be written.
 */
export async function compileModules(
  patterns: readonly string[],
  folder: string,
): Promise<DefinitionModule[]> {
  const sources = await findSources(patterns, folder);
  const compiled = await compileFiles(
    sources.filter((source) => TYPESCRIPT.test(source)),
    folder,
  );
  return sources.map((source) => ({ source, file: compiled.get(source) ?? source }));
}

/** Compiles TypeScript files together; returns the JavaScript file of each. @throws UsageError */
export async function compileFiles(files: readonly string[], folder: string): Promise<Map<string, string>> {
  if (files.length === 0) return new Map();
  const compiledFolder = join(folder, ".gen-durable", "compiled");
  const result = await build(files, folder, join(compiledFolder, UNNAMED));
  const outputs = result.outputFiles.map(({ path, contents }) => ({
    path: relative(join(compiledFolder, UNNAMED), path),
    contents,
  }));
  const hash = createHash("sha256");
  for (const { path, contents } of outputs.toSorted((a, b) => (a.path < b.path ? -1 : 1)))
    hash.update(`${path}\0${contents.length}\0`).update(contents);
  const target = join(compiledFolder, hash.digest("hex").slice(0, UNNAMED.length));
  try {
    write(target, outputs);
    markUsed(target);
    prune(compiledFolder);
  } catch (error) {
    throw new UsageError(
      "COMPILE_FOLDER",
      `compiled modules go to ${compiledFolder}, which cannot be written (${(error as Error).message}): make it writable, or compile the modules yourself and name the JavaScript files`,
      { cause: error },
    );
  }
  const byEntry = new Map<string, string>();
  for (const [output, { entryPoint }] of Object.entries(result.metafile.outputs)) {
    if (entryPoint === undefined) continue;
    const path = relative(join(compiledFolder, UNNAMED), resolve(folder, output));
    byEntry.set(resolve(folder, entryPoint), join(target, path));
  }
  return byEntry;
}

async function findSources(patterns: readonly string[], folder: string): Promise<string[]> {
  const ignore = [
    ...NEVER,
    ...patterns.filter((pattern) => pattern.startsWith("!")).map((it) => it.slice(1)),
  ];
  const sources = new Set<string>();
  for (const pattern of patterns) {
    if (pattern.startsWith("!")) continue;
    const matches = await glob(pattern, { cwd: folder, absolute: true, onlyFiles: true, ignore });
    const modules = matches.map((path) => resolve(path)).filter((path) => !DECLARATION.test(path));
    if (modules.length === 0)
      throw new UsageError("NO_MODULE", `fsms: no file matches "${pattern}" in ${folder}`, { path: "fsms" });
    for (const path of modules.toSorted()) {
      if (!TYPESCRIPT.test(path) && !JAVASCRIPT.test(path)) {
        throw new UsageError(
          "NOT_A_MODULE",
          `fsms: "${pattern}" matches ${path}, which is neither TypeScript (.ts, .mts, .cts, .tsx) nor JavaScript (.js, .mjs, .cjs)`,
          { path: "fsms" },
        );
      }
      sources.add(path);
    }
  }
  return [...sources];
}

type MemoryBuild = BuildResult<{ write: false; metafile: true }>;

async function build(files: readonly string[], folder: string, outdir: string): Promise<MemoryBuild> {
  const esbuild = await import("esbuild");
  const places = originalPlaces();
  try {
    return await esbuild.build({
      absWorkingDir: folder,
      entryPoints: [...files],
      outbase: folder,
      outdir,
      outExtension: { ".js": ".mjs" },
      bundle: true,
      splitting: true,
      conditions: [],
      platform: "node",
      target: "node20",
      format: "esm",
      sourcemap: "inline",
      keepNames: true,
      write: false,
      metafile: true,
      logLevel: "silent",
      ...places,
      plugins: [...places.plugins, externalPackages(folder)],
    });
  } catch (error) {
    const { errors } = error as Partial<BuildFailure>;
    if (errors === undefined) throw error;
    const shown = errors.slice(0, MESSAGES_MAX).map((message) => describeMessage(message, folder));
    const more = errors.length > MESSAGES_MAX ? `\n... and ${errors.length - MESSAGES_MAX} more` : "";
    throw new UsageError("COMPILE", `cannot compile: ${shown.join("\n")}${more}`, { cause: error });
  }
}

/** `fsms/checkout.ts:3:10: Expected ";" but found "}"`, and the line. */
function describeMessage({ text, location, pluginName }: Message, folder: string): string {
  if (location === null) return pluginName === "" ? text : `${pluginName}: ${text}`;
  const file = relative(process.cwd(), resolve(folder, location.file));
  const line = location.lineText.trim();
  return `${file}:${location.line}:${location.column + 1}: ${text}${line === "" ? "" : `\n    ${line}`}`;
}

/** O1. */
function write(target: string, outputs: readonly { path: string; contents: Uint8Array }[]): void {
  mkdirSync(dirname(target), { recursive: true });
  const ignore = join(dirname(dirname(target)), ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
  if (existsSync(target)) return;
  const temporary = `${target}.${process.pid}-${randomBytes(6).toString("hex")}`;
  try {
    for (const { path, contents } of outputs) {
      const file = join(temporary, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, contents);
    }
    mkdirSync(join(temporary, MARKS), { recursive: true });
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true });
    if (!existsSync(target)) throw error;
  }
}

function markUsed(target: string): void {
  const marks = join(target, MARKS);
  mkdirSync(marks, { recursive: true });
  for (const mark of readdirSync(marks))
    if (!isMarkValid(marks, mark)) rmSync(join(marks, mark), { force: true });
  writeFileSync(join(marks, `${process.pid}@${hostname()}`), "");
  const now = new Date();
  utimesSync(target, now, now);
}

/** O2. */
function prune(compiledFolder: string): void {
  for (const name of readdirSync(compiledFolder)) {
    const path = join(compiledFolder, name);
    if (isUsed(path)) continue;
    try {
      // Out of the way in one step, so that nobody finds half a folder.
      const trash = name.includes(".trash-") ? path : `${path}.trash-${randomBytes(6).toString("hex")}`;
      if (trash !== path) renameSync(path, trash);
      rmSync(trash, { recursive: true, force: true });
    } catch {
      // Somebody else prunes it.
    }
  }
}

function isUsed(path: string): boolean {
  const ageMs = ageOf(path);
  if (ageMs === undefined || ageMs < UNUSED_MS) return true;
  const marks = join(path, MARKS);
  if (!existsSync(marks)) return false;
  return readdirSync(marks).some((mark) => isMarkValid(marks, mark));
}

function isMarkValid(marks: string, mark: string): boolean {
  const [pid, ...host] = mark.split("@");
  if (host.join("@") !== hostname()) return (ageOf(join(marks, mark)) ?? 0) < FOREIGN_MARK_MS;
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function ageOf(path: string): number | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? undefined : Date.now() - stats.mtimeMs;
}

/** A path as a person in the current folder would write it. */
export function shortPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short === "" || short.startsWith(`..${sep}..`) ? path : short;
}
