// Compiled modules (packages/cli/src/compile.ts): where they go, what they keep, what they refuse.

import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, jest, test } from "@jest/globals";
import { compileModules } from "#cli/compile.js";
import { loadConfigFile } from "#cli/configFile.js";
import { folderWith, removeFolders, writeFiles } from "./command.js";

jest.setTimeout(30_000);
afterAll(removeFolders);

test("TypeScript is compiled together, JavaScript stays, what two modules share is one module", async () => {
  const folder = folderWith({
    "fsms/a.ts": 'import { shared } from "./lib/shared.js";\nexport const a: unknown = shared;',
    "fsms/b.ts": 'import { shared } from "./lib/shared.js";\nexport const b: unknown = shared;',
    "fsms/c.mjs": "export const c = 3;",
    "fsms/lib/shared.ts": "export const shared: object = {};",
    "fsms/types.d.ts": "export type Nothing = never;",
  });
  const modules = await compileModules(["./fsms/*"], folder).catch((error: Error) => error);
  expect(modules).toMatchObject([
    { source: join(folder, "fsms/a.ts") },
    { source: join(folder, "fsms/b.ts") },
    { source: join(folder, "fsms/c.mjs"), file: join(folder, "fsms/c.mjs") },
  ]);
  const [a, b] = await imported(modules);
  expect(a?.a).toBe(b?.b);
});

test("a module keeps its idea of where it is, and its packages", async () => {
  const elsewhere = folderWith({
    "node_modules/colour/package.json": '{ "name": "colour", "type": "module", "exports": "./index.js" }',
    "node_modules/colour/index.js": 'export default "green";',
    "m.ts": [
      'import colour from "colour";',
      'import { dirname } from "node:path";',
      "export const url: string = import.meta.url;",
      "export const folder: string = dirname(import.meta.filename);",
      "export const found: string = colour;",
    ].join("\n"),
  });
  const folder = folderWith({});
  const [m] = await imported(await compileModules([join(elsewhere, "m.ts")], folder));
  expect({ ...m }).toEqual({
    url: pathToFileURL(join(elsewhere, "m.ts")).href,
    folder: elsewhere,
    found: "green",
  });
});

test("gen-durable and zod are there where nothing is installed", async () => {
  const folder = folderWith({
    "m.ts":
      'import { defineFsm } from "gen-durable";\nimport { z } from "zod";\nexport const m = [defineFsm, z];',
  });
  const [module] = await imported(await compileModules(["m.ts"], folder));
  expect(module?.m).toEqual([
    expect.any(Function),
    expect.objectContaining({ object: expect.any(Function) }),
  ]);
});

test("what is the same is compiled to the same place, by many at once", async () => {
  const folder = folderWith({ "m.ts": "export const m: number = 1;" });
  const places = await Promise.all(
    Array.from({ length: 5 }, async () => (await compileModules(["m.ts"], folder))[0]?.file),
  );
  expect(new Set(places).size).toBe(1);
  expect(readdirSync(join(folder, ".gen-durable/compiled"))).toHaveLength(1);
  writeFiles(folder, { "m.ts": "export const m: number = 2;" });
  const changed = (await compileModules(["m.ts"], folder))[0]?.file;
  expect(changed).not.toBe(places[0]);
});

test("O2: what is old and unused is removed, what a living process uses is not", async () => {
  const folder = folderWith({ "m.ts": "export const m: number = 1;" });
  const compiled = join(folder, ".gen-durable/compiled");
  const old = (name: string, mark?: string): void => {
    mkdirSync(join(compiled, name, "in-use"), { recursive: true });
    if (mark !== undefined) writeFileSync(join(compiled, name, "in-use", mark), "");
    utimesSync(join(compiled, name), new Date(0), new Date(0));
  };
  old("unused");
  old("dead", `${2 ** 22 + 1}@${hostname()}`);
  old("alive", `${process.pid}@${hostname()}`);
  old("foreign", "1@another-machine");
  await compileModules(["m.ts"], folder);
  expect(["unused", "dead", "alive", "foreign"].filter((name) => existsSync(join(compiled, name)))).toEqual([
    "alive",
    "foreign",
  ]);
});

test("patterns that begin with ! take away", async () => {
  const folder = folderWith({ "a.ts": "export {};", "a.test.ts": "throw 1;" });
  const modules = await compileModules(["*.ts", "!*.test.ts"], folder);
  expect(modules.map(({ source }) => source)).toEqual([join(folder, "a.ts")]);
});

test("a config file in JavaScript is imported as it is; of several the TypeScript one is taken", async () => {
  const folder = folderWith({ "gen-durable.config.mjs": "export default { workers: 3 };" });
  expect(await loadConfigFile(folder)).toEqual({
    path: resolve(folder, "gen-durable.config.mjs"),
    folder,
    value: { workers: 3 },
  });
  writeFiles(folder, { "gen-durable.config.ts": "export default { workers: 4 as number };" });
  expect((await loadConfigFile(folder)).value).toEqual({ workers: 4 });
  expect((await loadConfigFile("/", folder)).folder).toBe(folder);
});

async function imported(modules: unknown): Promise<Record<string, unknown>[]> {
  const list = modules as { file: string }[];
  return Promise.all(
    list.map(({ file }) => import(pathToFileURL(file).href) as Promise<Record<string, unknown>>),
  );
}
