// No statement is forgotten: each file under sql/ is measured (million.slow.test.ts), or says why it is not.
import { readdirSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { Statements } from "#core/database/statements.js";
import { COLD, fileOf, HOT } from "./hot.js";

test("every statement is among the hot ones or says why it is not", () => {
  const files = readdirSync("sql", { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".sql"))
    .map((file) => file.slice(0, -".sql".length).replaceAll("\\", "/"));
  const named = [...new Set(Object.keys(HOT).map(fileOf)), ...Object.keys(COLD)];
  expect(named.toSorted()).toEqual(files.toSorted());
});

test("every hot statement is given as many parameters as it takes", () => {
  const statements = new Statements("gen_durable");
  for (const [name, { params }] of Object.entries(HOT)) {
    const numbers = [...statements.get(fileOf(name)).text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n));
    expect([name, params(1, 1_000).length]).toEqual([name, Math.max(0, ...numbers)]);
  }
});
