#!/usr/bin/env node
// The bin is committed because npm links bins before a `prepare` script has built anything.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const main = new URL("../dist/cli/main.js", import.meta.url);
if (!existsSync(main)) {
  const build = new URL("../../../scripts/build.mjs", import.meta.url);
  if (!existsSync(build)) {
    console.error(`gen-durable is not built: ${fileURLToPath(main)} is missing. Install it again.`);
    process.exit(1);
  }
  (await import(build.href)).build();
}
await import(main.href);
