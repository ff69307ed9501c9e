// Children and joins on a real node: the join fires once a round, however the children end.

import { beforeAll, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { xparent } from "../support/probes/family.js";
import { readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { deduped, family, fan, holdFamily, rounds, tree, waiter } from "./machines.js";

const database = await createDatabase();
const client = createClient({ pool: database.pool });

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
  // Polls would hide a poke that is missing: what runs here was poked, or found by a completion.
  await startNode({
    database,
    fsms: ["test/coordination/machines.ts", "basic", "family"],
    config: { ...FAR_POLLS, queues: { default: 20, kids: 20 } },
  });
}, 60_000);

const done = async (id: number): Promise<unknown> => {
  const answer = await client.waitFor(id, { timeoutMs: 20_000 });
  if (answer.status !== "done") throw new Error(`instance ${id}: ${JSON.stringify(answer)}`);
  return answer.result;
};
const status = async (id: number) => (await readRow(database, id)).status;
const parked = (id: number) => until(async () => (await status(id)) === "awaiting_children");
const childrenOf = async (parentId: number) => {
  const { instances } = await client.list({ parentId });
  return instances.map(({ id }) => id).sort((a, b) => a - b);
};
const waiting = (parentId: number, count: number) =>
  until(async () => {
    const { instances } = await client.list({ parentId, status: "awaiting_signal" });
    return instances.length === count;
  });
/** How often the instance went from waiting for children to runnable. */
const joinsOf = async (id: number): Promise<number> => {
  const history = await readHistory(database, id);
  return history.filter(
    (entry, n) => entry.status === "runnable" && history[n - 1]?.status === "awaiting_children",
  ).length;
};

test("CHI-01, CHI-02, CHI-05: one join after all have ended, it sees who failed and why", async () => {
  const { id } = await client.insert(fan, { state: { count: 6, failEvery: 3 } });
  expect(await done(id)).toEqual({ done: 4, failed: 2, all: 6 });
  expect(await joinsOf(id)).toBe(1);
  expect((await readAudit(database, id)).map(({ step }) => step)).toEqual(["join"]);
});

test("CHI-04: children and park are one transaction", async () => {
  const { id } = await client.insert(family, { state: { kids: 3 } });
  await waiting(id, 3);
  const history = await readHistory(database);
  const park = history.find((entry) => entry.id === id && entry.status === "awaiting_children");
  const births = history.filter((entry) => entry.op === "INSERT" && entry.xid === park?.xid);
  expect(births).toHaveLength(3);
  for (const target of await childrenOf(id)) await client.signal(target, "go", "x");
  await done(id);
});

test("zero children: the parent goes on at once", async () => {
  const { id } = await client.insert(fan, { state: { count: 0 } });
  expect(await done(id)).toEqual({ done: 0, failed: 0, all: 0 });
});

test("CHI-07: the second join sees the children of both rounds", async () => {
  const { id } = await client.insert(rounds);
  expect(await done(id)).toEqual([2, 3]);
  expect(await joinsOf(id)).toBe(2);
});

test("CHI-08: of children with a taken key only the others are waited for; if none is left, nobody", async () => {
  const { id: occupant } = await client.insert(waiter, { correlationKey: "kid:1" });
  const { id } = await client.insert(deduped, { state: { keys: ["kid:1", "kid:2", "kid:2"] } });
  await waiting(id, 1);
  expect(await readRow(database, id)).toMatchObject({ children_pending: 1 });
  const { id: none } = await client.insert(deduped, { state: { keys: ["kid:1", "kid:2"] } });
  expect(await done(none)).toEqual({ joined: 0, wokenBy: "children" });
  await client.signal("kid:2", "go");
  expect(await done(id)).toEqual({ joined: 1, wokenBy: "children" });
  expect(await status(occupant)).toBe("awaiting_signal");
});

test("CHI-10: three levels deep, each level joins on its own", async () => {
  const { id } = await client.insert(tree, { state: { depth: 3, width: 3 } });
  expect(await client.waitFor(tree, id, { timeoutMs: 20_000 })).toEqual({
    status: "done",
    result: { leaves: 27 },
  });
  const inner = await database.query<{ id: number }>(
    "SELECT id FROM gen_durable WHERE fsm = 'tree' AND state->>'depth' <> '0'",
  );
  expect(inner).toHaveLength(13);
  for (const node of inner) expect(await joinsOf(node.id)).toBe(1);
});

test("POKE-04, TOP-08: children in another queue, all of it by pokes", async () => {
  const startedMs = performance.now();
  const { id } = await client.insert(xparent, { state: { kids: [{}, {}, {}] } });
  expect(await done(id)).toEqual({ statuses: ["done", "done", "done"] });
  expect(performance.now() - startedMs).toBeLessThan(5_000);
});

test("a cancelled child and a failed one count like any other, and the parent is told", async () => {
  const { id } = await client.insert(family, { state: { kids: 3 } });
  await waiting(id, 3);
  const [first = 0, second = 0, third = 0] = await childrenOf(id);
  expect(await client.cancel(first, "not needed")).toBe("cancelled");
  await client.signal(second, "go", "fail");
  await client.signal(third, "go", { v: 1 });
  expect(await done(id)).toEqual([
    { status: "failed", result: null, error: "cancelled: not needed" },
    { status: "failed", result: null, error: "told to fail" },
    { status: "done", result: { v: 1 }, error: null },
  ]);
  expect(await joinsOf(id)).toBe(1);
});

test("the last child is cancelled: the parent wakes by the client's own poke", async () => {
  const { id } = await client.insert(family, { state: { kids: 1 } });
  await waiting(id, 1);
  const [child = 0] = await childrenOf(id);
  await client.cancel(child);
  expect(await done(id)).toEqual([{ status: "failed", result: null, error: "cancelled" }]);
});

test("children that are deleted by hand: the reaper wakes the parent", async () => {
  const { id } = await client.insert(family, { state: { kids: 3 } });
  await waiting(id, 3);
  const [first = 0, ...others] = await childrenOf(id);
  await client.signal(first, "go", "kept");
  await database.query("DELETE FROM gen_durable WHERE id = ANY ($1)", [others]);
  expect(await done(id)).toEqual([{ status: "done", result: "kept", error: null }]);
  expect(await joinsOf(id)).toBe(1);
});

test("a retried child is waited for again; after the join it runs for itself", async () => {
  const { id } = await client.insert(family, { state: { kids: 2 } });
  await waiting(id, 2);
  const [first = 0, second = 0] = await childrenOf(id);
  await client.signal(first, "go", "fail");
  await until(async () => (await status(first)) === "failed");
  expect(await readRow(database, id)).toMatchObject({ children_pending: 1 });
  // It finds the input that made it fail, and a better one.
  expect(await client.retry(first)).toEqual({ ok: true });
  await until(async () => (await readRow(database, first)).visit === 5);
  expect(await readRow(database, id)).toMatchObject({ status: "awaiting_children", children_pending: 1 });
  await client.signal(second, "go", "fine");
  expect(await done(id)).toMatchObject([{ status: "failed" }, { status: "done" }]);
  expect(await joinsOf(id)).toBe(1);
  await client.retry(first);
  await until(async () => (await readRow(database, first)).status === "failed");
  expect(await readRow(database, first)).toMatchObject({ parent_id: null });
  expect(await status(id)).toBe("done");
});

test("CHI-11: cancelling a parent leaves its children alone; their end changes nothing", async () => {
  const { id } = await client.insert(family, { state: { kids: 2 } });
  await waiting(id, 2);
  const kids = await childrenOf(id);
  expect(await client.cancel(id, "changed my mind")).toBe("cancelled");
  for (const kid of kids) {
    expect(await status(kid)).toBe("awaiting_signal");
    await client.signal(kid, "go", "late");
    expect(await done(kid)).toBe("late");
  }
  expect(await readRow(database, id)).toMatchObject({
    status: "failed",
    last_error: "cancelled: changed my mind",
  });
});

test("CHI-11: with cascade the whole family ends, a running step after it has ended", async () => {
  const { id } = await client.insert(holdFamily, { state: { name: "cascade" } });
  await parked(id);
  const [hold = 0, inner = 0] = await childrenOf(id);
  await waiting(inner, 2);
  await until(async () => (await status(hold)) === "executing");
  expect(await client.cancel(id, "all of it", { cascade: true })).toBe("cancelled");
  const leaves = await childrenOf(inner);
  for (const member of [id, inner, ...leaves])
    expect(await readRow(database, member)).toMatchObject({
      status: "failed",
      last_error: "cancelled: all of it",
    });
  // The running step is asked; its end, whatever it is, is the cancellation.
  await until(async () => (await status(hold)) === "failed");
  expect(await readRow(database, hold)).toMatchObject({ last_error: "cancelled: all of it" });
  await letGo(database, "cascade");
});

test("a child that cleans up is waited for until it has", async () => {
  const parent = await client.insert(family, { state: { kids: 1 } });
  await waiting(parent.id, 1);
  const [kid = 0] = await childrenOf(parent.id);
  // The same child, of a machine that cleans up.
  await database.query(
    "UPDATE gen_durable SET fsm = 'tidy', step = 'start', state = '{\"parks\": true}' WHERE id = $1",
    [kid],
  );
  expect(await client.cancel(kid, "stop it")).toBe("cancelling");
  expect(await done(parent.id)).toEqual([{ status: "done", result: { cleanedUp: "stop it" }, error: null }]);
});

test("nothing here moved in a way that the lifecycle does not know, and nothing deadlocked", async () => {
  expect(illegalMoves(await readHistory(database))).toEqual([]);
  expect(database.log().filter((line) => /deadlock|ERROR/.test(line))).toEqual([]);
});
