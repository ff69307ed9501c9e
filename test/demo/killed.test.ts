// The demo as a stranger runs it, killed and run again.

import { expect, test } from "@jest/globals";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { seededRandom } from "../support/seed.js";
import { until } from "../support/until.js";
import { countIndexed, outputOf, readIndex, startDemo, temporaryFolder, writeFiles } from "./demoRun.js";

const FILES = 300;
const KILLS = 3;

test("killed with SIGKILL three times at random moments, the demo ends with exactly one row set a file", async () => {
  const random = seededRandom("demo, killed");
  const database = await createDatabase();
  await recordHistory(database);
  const folder = temporaryFolder();
  const expected = writeFiles(folder, FILES, random);
  // Failing reads are tried again after a tenth of a second: there is something to kill at every moment. That one fails eight
  // times happens once in a hundred thousand of these tests.
  const flags = ["--flaky", "10"];

  for (let kill = 1; kill <= KILLS; kill++) {
    // Each kill falls into a part of the work of its own, the last one well before the end.
    const indexed = Math.floor(random.between(kill - 1, kill) * (FILES / 5)) + 1;
    const run = startDemo(folder, { url: database.url, flags });
    await until(async () => (await countIndexed(database)) >= indexed || run.child.exitCode !== null, {
      timeoutMs: 60_000,
      everyMs: 3,
      describe: `${indexed} files are indexed`,
    });
    run.child.kill("SIGKILL");
    const { signal, output } = await run.ended;
    expect({ signal, output }).toMatchObject({ signal: "SIGKILL" });
  }

  const output = await outputOf(startDemo(folder, { url: database.url, flags }));
  expect(output).toContain(`${FILES} files`);
  expect(output).toContain(`0 new, ${FILES} known from an earlier run`);
  expect(await readIndex(database)).toEqual(expected);
  expect(await database.query("SELECT status, count(*) AS n FROM gen_durable GROUP BY status")).toEqual([
    { status: "done", n: FILES },
  ]);

  const history = await readHistory(database);
  expect(illegalMoves(history)).toEqual([]);
  const visits = new Map<number, number>();
  for (const { id, visit } of history) {
    expect(visit ?? 0).toBeGreaterThanOrEqual(visits.get(id) ?? 0);
    visits.set(id, visit ?? 0);
  }
}, 240_000);

test("run again when everything is finished, nothing is done twice", async () => {
  const random = seededRandom("demo, twice");
  const database = await createDatabase();
  const folder = temporaryFolder();
  const expected = writeFiles(folder, 20, random);
  await outputOf(startDemo(folder, { url: database.url }));
  await recordHistory(database);
  const output = await outputOf(startDemo(folder, { url: database.url }));
  expect(output).toContain("0 new, 20 known from an earlier run");
  expect(await readHistory(database)).toEqual([]);
  expect(await readIndex(database)).toEqual(expected);
}, 120_000);
