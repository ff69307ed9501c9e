// Runs a TypeScript file of this repository: `node scripts/run.mjs <file> [arguments]`. Node 20 does not load TypeScript by
// itself, and the repository needs no second compiler for its examples, benchmarks and test support.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** Bundles a file with what it imports relatively; packages and the `#` imports stay outside. Returns the bundle's path. */
export async function bundle(file) {
  const source = resolve(file);
  // Under the root, so that packages and `#core/...` resolve as they do for the source.
  const name = source.slice(root.length + 1).replaceAll(/[\\/]/g, "-");
  const outfile = join(root, ".cache", `${name}-${process.pid}`, `${basename(file, ".ts")}.mjs`);
  await build({
    entryPoints: [source],
    outfile,
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    external: ["#*"],
    sourcemap: "inline",
    define: { "import.meta.url": JSON.stringify(pathToFileURL(source).href) },
    logLevel: "error",
  });
  return outfile;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , file, ...rest] = process.argv;
  if (file === undefined) throw new Error("usage: node scripts/run.mjs <file.ts> [arguments]");
  removeLeftovers();
  const path = await bundle(file);
  process.once("exit", () => rmSync(dirname(path), { recursive: true, force: true }));
  process.argv = [process.execPath, path, ...rest];
  await import(pathToFileURL(path).href);
}

/** Removes the bundles of processes that were killed. */
function removeLeftovers() {
  const folder = join(root, ".cache");
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder)) {
    const pid = Number(name.slice(name.lastIndexOf("-") + 1));
    if (!isAlive(pid)) rmSync(join(folder, name), { recursive: true, force: true });
  }
}

function isAlive(pid) {
  try {
    return Number.isInteger(pid) && process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
}
