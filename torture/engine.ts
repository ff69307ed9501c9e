// Engine: the build that is tortured: the repository's own, or a copy with a mutant in it. The harness takes the client and
// the command from there, so that a mutant reaches both.

import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Client, ClientOptions } from "gen-durable";

export interface Engine {
  /** The folder of the package: `bin/` and `dist/` are in it. */
  folder: string;
  bin: string;
  createClient(options: ClientOptions): Client;
}

export const OWN_PACKAGE = resolve("packages/cli");

/** Loads the client of the package in a folder. */
export async function loadEngine(folder = OWN_PACKAGE): Promise<Engine> {
  const module = (await import(pathToFileURL(join(folder, "dist/cli/index.js")).href)) as {
    createClient: (options: ClientOptions) => Client;
  };
  return { folder, bin: join(folder, "bin/gen-durable.js"), createClient: module.createClient };
}
