// Version: of the published package, as its manifest has it.

import { readFileSync } from "node:fs";

/** For example "0.1.0". */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return (manifest as { version: string }).version;
}
