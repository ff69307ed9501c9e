// npm runs this before it packs packages/cli: builds, and puts the texts beside it that its messages and its help point to.
import { cpSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "./build.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
build();
for (const name of ["README.md", "LICENSE", "CHANGELOG.md", "docs"])
  cpSync(join(root, name), join(root, "packages/cli", name), { recursive: true });
