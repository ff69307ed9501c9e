// Every sql block of the guides for operators runs as it stands.

import { readFileSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";

const BLOCK = /^```sql\n([\s\S]*?)^```$/gm;

test.each(["operations", "scaling"])("the SQL in docs/%s.md runs", async (name) => {
  const database = await createDatabase();
  const blocks = [...readFileSync(`docs/${name}.md`, "utf8").matchAll(BLOCK)];
  expect(blocks.length).toBeGreaterThan(0);
  for (const [, text = ""] of blocks) await database.query(text);
});

test("the metrics that docs/operations.md names are served", async () => {
  const { Counters } = await import("#cli/node/counters.js");
  const served = [
    ...Object.keys(new Counters().read()).map((name) => `${name}_total`),
    "ready",
    "database_up",
  ];
  const named = readFileSync("docs/operations.md", "utf8").matchAll(/`gen_durable_(\w+)`/g);
  for (const [, name = ""] of named) expect(served).toContain(name);
});
