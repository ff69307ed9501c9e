// Builds every package into packages/cli/dist and copies the SQL files beside the code that runs them.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The path of the TypeScript compiler's bin, or undefined where it is not installed (`npm ci --omit=dev`). */
export function findCompiler() {
  try {
    const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
    return join(dirname(manifest), "bin", "tsc");
  } catch {
    return undefined;
  }
}

/** Builds the whole tree; ends the process with the compiler's status when it refuses. */
export function build() {
  const compiler = findCompiler();
  if (compiler === undefined) {
    console.error("gen-durable: cannot build, TypeScript is not installed (npm ci installs it).");
    process.exit(1);
  }
  // The compiler's messages go to stderr: stdout may be the output of the command that caused the build.
  const { status } = spawnSync(process.execPath, [compiler, "-b"], { cwd: root, stdio: ["ignore", 2, 2] });
  if (status !== 0) process.exit(status ?? 1);
  const target = join(root, "packages/cli/dist/sql");
  if (existsSync(target)) rmSync(target, { recursive: true });
  cpSync(join(root, "sql"), target, { recursive: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) build();
