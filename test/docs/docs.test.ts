// Every ts block of the README and of docs/ compiles against what is published, as its reader would compile it.
// A block stands alone, beside the machine that the guides have in fsms/checkout.ts. One that is no whole file says so:
// ```ts fragment.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "@jest/globals";

const BLOCK = /^```ts\n([\s\S]*?)^```$/gm;

function documents(): string[] {
  const guides = readdirSync("docs").filter((name) => name.endsWith(".md"));
  const examples = readdirSync("examples").map((name) => join("examples", name, "README.md"));
  return ["README.md", ...guides.map((name) => join("docs", name)), ...examples];
}

function codeBlocks(file: string): { code: string; line: number }[] {
  const text = readFileSync(file, "utf8");
  return [...text.matchAll(BLOCK)].map((match) => ({
    code: match[1] ?? "",
    line: text.slice(0, match.index).split("\n").length + 1,
  }));
}

test("the code in README and docs compiles", () => {
  // Under the root, so that `gen-durable`, `zod` and `pg` resolve as they do for the examples.
  const folder = resolve(".cache", `docs-${process.pid}`);
  mkdirSync(folder, { recursive: true });
  try {
    mkdirSync(join(folder, "fsms"));
    cpSync("test/docs/checkout.ts", join(folder, "fsms/checkout.ts"));
    let blocks = 0;
    for (const file of documents()) {
      for (const { code, line } of codeBlocks(file)) {
        const name = `${file.replaceAll(/[\\/]/g, "_").replace(".md", "")}_line_${line}.ts`;
        writeFileSync(join(folder, name), `${code}\nexport {};\n`);
        blocks += 1;
      }
    }
    expect(blocks).toBeGreaterThan(0);
    const config = { extends: resolve("tsconfig.base.json"), compilerOptions: { noEmit: true, paths: {} } };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ ...config, include: ["*.ts"] }));
    const compiler = resolve("node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [compiler, "-p", folder], { encoding: "utf8" });
    expect(stdout.replaceAll(`${folder}/`, "")).toBe("");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
