// Finding work with far polls: only pokes, completions and timers find it. A real node.
import { expect, test } from "@jest/globals";
import { pokeChannel } from "#core/poke.js";
import { createAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { insertRow, readRow } from "../support/rows.js";
import { logStatements, markStatements, statementsSince } from "../support/statements.js";
import { until } from "../support/until.js";

const database = await createDatabase();
await createAudit(database);
await logStatements(database);
const node = await startNode({ database, config: { ...FAR_POLLS, queues: { default: 5, kids: 5 } } });

const claimsSince = (mark: number) =>
  statementsSince(database, mark).filter(({ name }) => name?.startsWith("claim_runnable") === true).length;
const notify = (payload: string) =>
  database.query("SELECT pg_notify($1, $2)", [pokeChannel("gen_durable"), payload]);
const done = (id: number) =>
  until(async () => (await readRow(database, id)).status === "done", {
    describe: () => `instance ${id} is done\n${node.stderr}`,
  });

// Each queue has looked once when the node started.
await until(() => claimsSince(0) === 2);

test("POKE-08, STM-02: a notification from elsewhere makes the node pick, once", async () => {
  const id = await insertRow(database);
  const mark = markStatements(database);
  await notify("default");
  await done(id);
  expect(claimsSince(mark)).toBe(1);
});

test("POKE-02: work due in a minute, other queues and payloads that mean nothing make no pick", async () => {
  const mark = markStatements(database);
  for (const payload of ["default\t60000", "somewhere else", "\t", "default\tx", "\tcancel\t1"])
    await notify(payload);
  const id = await insertRow(database);
  await notify("default");
  await done(id);
  expect(claimsSince(mark)).toBe(1);
});

test("RET-08, INS-08: a poke that names the time arms a timer: a row due soon starts then, without a poll", async () => {
  const id = await insertRow(database, { eligibleInMs: 400 });
  await notify("default\t400");
  await done(id);
  const { lateMs } = await database.one<{ lateMs: number }>(
    `SELECT extract(epoch FROM updated_at - eligible_at)::float8 * 1000 AS "lateMs" FROM gen_durable WHERE id = $1`,
    [id],
  );
  expect(lateMs).toBeGreaterThanOrEqual(0);
});

test("AWT-10: a deadline that this node's own commit has armed fires without a poll", async () => {
  const id = await insertRow(database, { fsm: "awaitTimeout", state: { timeoutMs: 300 } });
  await notify("default");
  await done(id);
  expect(await readRow(database, id)).toMatchObject({ result: "timed out" });
});

test("POKE-04, POKE-07: a round trip through another queue; what the node tells others causes no pick of its own", async () => {
  const mark = markStatements(database);
  const id = await insertRow(database, { fsm: "xparent", state: { kids: [{}, {}, {}] } });
  await notify("default");
  await done(id);
  expect(await readRow(database, id)).toMatchObject({ result: { statuses: ["done", "done", "done"] } });
  // The parent, the children, the join. Children that end in two flushes would still be one wake.
  expect(claimsSince(mark)).toBe(3);
});

test("T1, AWT-11: what nobody has poked for is found by the next look: a due row, and a deadline that has passed", async () => {
  const row = await insertRow(database, { eligibleInMs: 1_000 });
  const parked = await insertRow(database, {
    fsm: "awaitTimeout",
    step: "woken",
    status: "awaiting_signal",
    awaits: ["go"],
    deadlineInMs: -60_000,
  });
  await done(parked);
  await done(row);
});

test("a connection that hears pokes and is cut is open again, and what was missed is caught up", async () => {
  const cut = await database.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'gen-durable listener%' AND datname = $1",
    [database.name],
  );
  expect(cut).toHaveLength(1);
  await insertRow(database).then(done);
  const id = await insertRow(database);
  await notify("default");
  await done(id);
});
