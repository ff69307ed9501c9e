// Install: the other engines, pinned, into a node_modules of this folder; the project itself depends on none of them.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

const FOLDER = resolve("benchmarks/peers");
/** What was installed, to see when the lock file has changed. */
const MARK = resolve(FOLDER, "node_modules/.installed");

/** Installs them unless they are there as the lock file says. @throws when npm fails */
export function installPeers(): void {
  const lock = readFileSync(resolve(FOLDER, "package-lock.json"), "utf8");
  if (existsSync(MARK) && readFileSync(MARK, "utf8") === lock) return;
  console.log("installing the other engines into benchmarks/peers/node_modules");
  const { status } = spawnSync(
    "npm",
    ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"],
    { cwd: FOLDER, stdio: "inherit" },
  );
  if (status !== 0) throw new Error(`npm ci in ${FOLDER} ended with ${status}`);
  writeFileSync(MARK, lock);
}
