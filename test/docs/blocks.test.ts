// Every TypeScript block of the guides compiles, as a module of its own, against the package's sources.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { expect, test } from "@jest/globals";

const root = process.cwd();
const guides = readdirSync(join(root, "docs"))
  .filter((name) => name.endsWith(".md"))
  .map((name) => join("docs", name));

test("every TypeScript block of the guides compiles", () => {
  // Below the root, so that the blocks find node_modules.
  const folder = mkdtempSync(join(root, "test/docs/.blocks-"));
  try {
    let count = 0;
    for (const guide of guides) {
      const blocks = readFileSync(join(root, guide), "utf8").matchAll(/^```ts\n(.*?)^```$/gms);
      for (const [, block = ""] of blocks) {
        const name = guide.replaceAll(/[/.]/g, "_");
        writeFileSync(join(folder, `${name}_${count++}.ts`), `${block}\nexport {};\n`);
      }
    }
    expect(count).toBeGreaterThan(5);
    writeFileSync(
      join(folder, "tsconfig.json"),
      JSON.stringify({
        extends: "../../../tsconfig.base.json",
        compilerOptions: {
          noEmit: true,
          paths: {
            "gen-durable": ["../../../packages/cli/src/index.ts"],
            ...Object.fromEntries(
              ["core", "executor", "flusher", "coordinator", "cli"].map((name) => [
                `#${name}/*`,
                [`../../../packages/${name}/src/*`],
              ]),
            ),
          },
        },
        include: ["*.ts"],
      }),
    );
    const manifest = createRequire(join(root, "package.json")).resolve("typescript/package.json");
    const compiler = join(dirname(manifest), "bin/tsc");
    const { stdout } = spawnSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8", cwd: root });
    expect(stdout).toBe("");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
