// Clock: milliseconds since 1970 with fractions, the same in all processes of a machine.

import { readFileSync } from "node:fs";

export const nowMs = () => performance.timeOrigin + performance.now();

/** The version of an engine's package, as it is installed here. */
export function versionOf(name) {
  return JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url), "utf8"))
    .version;
}
