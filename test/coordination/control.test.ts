// Control, jobs, retries and errors on a real node: cancel in every race, clean-up, and back-offs that start on time.

import { beforeAll, expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createAudit, letGo, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import { FAR_POLLS, startNode } from "../support/node.js";
import { hold, plain } from "../support/probes/basic.js";
import { badResult, crasher, thrower } from "../support/probes/failing.js";
import { cancels, flaky, giveUp, ok, result } from "../support/probes/jobs.js";
import { readRow } from "../support/rows.js";
import { until } from "../support/until.js";
import { backsOff, persistent, tidy, twenty } from "./machines.js";

const database = await createDatabase();
const client = createClient({ pool: database.pool });

beforeAll(async () => {
  await createAudit(database);
  await recordHistory(database);
  await startNode({
    database,
    fsms: ["test/coordination/machines.ts", "basic", "failing", "jobs"],
    config: { ...FAR_POLLS, queues: { default: 20 }, leaseTtlMs: 60_000, heartbeatIntervalMs: 200 },
  });
}, 60_000);

const ended = (id: number) => client.waitFor(id, { timeoutMs: 20_000 });
const running = (id: number) =>
  until(async () => (await readAudit(database, id)).length > 0, { describe: `${id} runs` });
const status = async (id: number) => (await readRow(database, id)).status;

test("a running step with a clean-up is asked, ends, and cleans up with the reason", async () => {
  const { id } = await client.insert(tidy);
  await running(id);
  expect(await client.cancel(id, "closing")).toBe("cancelling");
  // The first reason stands, whether the clean-up still runs or has ended.
  expect(["cancelling", "already_done"]).toContain(await client.cancel(id, "again"));
  expect(await ended(id)).toEqual({ status: "done", result: { cleanedUp: "closing" } });
  expect((await readAudit(database, id)).map(({ step }) => step)).toEqual(["start", "cleanUp"]);
  expect(await client.cancel(id, "late")).toBe("already_done");
});

test("a parked one goes to its clean-up at once, and a signal that comes later finds it there or nobody", async () => {
  const { id } = await client.insert(tidy, { state: { parks: true } });
  await until(async () => (await status(id)) === "awaiting_signal");
  expect(await client.cancel(id, "not wanted")).toBe("cancelling");
  expect(await ended(id)).toEqual({ status: "done", result: { cleanedUp: "not wanted" } });
  expect(await client.signal(id, "go")).toEqual({ ok: false, reason: "no_target" });
});

test("force: no clean-up, the running step's outcome comes too late", async () => {
  const { id } = await client.insert(tidy, { state: { name: "forced" } });
  await running(id);
  expect(await client.cancel(id, "now", { force: true })).toBe("cancelled");
  await letGo(database, "forced");
  await until(async () => (await readAudit(database, id)).every(({ left_at }) => left_at !== null));
  expect(await readRow(database, id)).toMatchObject({ status: "failed", last_error: "cancelled: now" });
  expect((await readAudit(database, id)).map(({ step }) => step)).toEqual(["start"]);
});

test("a running step without a clean-up keeps its claim until it ends; its end is the cancellation", async () => {
  const { id } = await client.insert(hold, { state: { name: "cancelled" } });
  await running(id);
  const claim = (await readRow(database, id)).locked_by;
  expect(await client.cancel(id, "enough")).toBe("cancelling");
  expect(await ended(id)).toEqual({ status: "failed", error: "cancelled: enough" });
  const owners = new Set((await readHistory(database, id)).flatMap(({ locked_by }) => locked_by ?? []));
  expect([...owners]).toEqual([claim]);
});

test("cancel races completion two hundred times: its answer is what became of the row", async () => {
  const ids = (await client.insertMany(plain, Array(200).fill({}))).map(({ id }) => id);
  // Some answers while it is runnable, some while it executes, some when it is done.
  // Waits have a pool of their own: two hundred cancels at once fill this one's.
  const watcher = createClient({ url: database.url });
  const answers = await Promise.all(
    ids.map(async (id, n) => {
      if (n % 3 === 0) await watcher.waitFor(id, { timeoutMs: n % 20 });
      return client.cancel(id, "race");
    }),
  );
  await watcher.close();
  for (const [n, answer] of answers.entries()) {
    const end = await ended(ids[n] ?? 0);
    const cancelled = { status: "failed", error: "cancelled: race" };
    expect([answer, end]).toEqual([
      expect.stringMatching("^(cancelled|cancelling|already_done)$"),
      answer === "already_done" ? { status: "done", result: null } : cancelled,
    ]);
  }
});

test("JOB-01, JOB-02, JOB-04, JOB-05: results, tries and cancel of jobs", async () => {
  const [a, b, c, d, e] = await Promise.all([
    client.insert(ok),
    client.insert(result, { state: { n: 21 } }),
    client.insert(giveUp),
    client.insert(cancels),
    client.insert(flaky),
  ]);
  expect(await ended(a.id)).toEqual({ status: "done", result: null });
  expect(await client.waitFor(result, b.id)).toEqual({ status: "done", result: { doubled: 42, attempt: 0 } });
  expect(await ended(c.id)).toEqual({ status: "failed", error: "always" });
  expect(await readRow(database, c.id)).toMatchObject({ attempt: 2 });
  expect(await ended(d.id)).toEqual({ status: "failed", error: "nope" });
  expect(await readRow(database, d.id)).toMatchObject({ attempt: 0 });
  expect(await ended(e.id)).toEqual({ status: "done", result: { attempt: 1 } });
});

test("JOB-07, JOB-08: twenty tries by default, a second to the second one", async () => {
  const { id } = await client.insert(twenty);
  const slow = await client.insert(backsOff);
  expect(await ended(id)).toEqual({ status: "failed", error: "never" });
  expect(await readRow(database, id)).toMatchObject({ attempt: 19 });
  // The row as it waits for whichever try is next: a busy machine may not see it before the first one.
  const waiting = await until(async () => {
    const [row] = await database.query<{ attempt: number; ms: number }>(
      `SELECT attempt, extract(epoch FROM eligible_at - updated_at)::float8 * 1000 AS ms
         FROM gen_durable WHERE id = $1 AND attempt > 0 AND status = 'runnable'`,
      [slow.id],
    );
    return row;
  });
  expect(waiting.ms).toBeCloseTo(1_000 * 2 ** (waiting.attempt - 1), 0);
  // A job that waits for its next try is cancelled like any runnable instance.
  expect(["cancelled", "cancelling"]).toContain(await client.cancel(slow.id, "enough tries"));
});

test("RET-01, RET-05, RET-08: retries count up, start on time with far polls, and next starts at attempt 0", async () => {
  const { id } = await client.insert(persistent, { state: { times: 3, delayMs: 60 } });
  expect(await ended(id)).toEqual({ status: "done", result: { tries: [0, 1, 2, 3], attempt: 0 } });
  const tries = await readAudit(database, id);
  expect(tries.map(({ attempt }) => attempt)).toEqual([0, 1, 2, 3]);
  for (const [n, entry] of tries.entries()) {
    const gapMs = entry.entered_at.getTime() - (tries[n - 1]?.entered_at.getTime() ?? 0);
    expect(gapMs).toBeGreaterThanOrEqual(59);
    // Polls are a minute apart, the database is asked every five seconds: this was a timer.
    if (n > 0) expect(gapMs).toBeLessThan(2_000);
  }
});

test("RET-02, RET-07: fifty retries without a delay", async () => {
  const { id } = await client.insert(persistent, { state: { times: 50 } });
  expect(await ended(id)).toMatchObject({ status: "done", result: { attempt: 0 } });
  expect(await readAudit(database, id)).toHaveLength(51);
});

test("ERR-01, ERR-02, ERR-04: handle retries and gives up; without it the message fails the instance, once", async () => {
  const [gaveUp, thrown, bad] = await Promise.all([
    client.insert(crasher),
    client.insert(thrower),
    client.insert(badResult),
  ]);
  expect(await ended(gaveUp.id)).toEqual({ status: "failed", error: "gave up" });
  expect(await readRow(database, gaveUp.id)).toMatchObject({ attempt: 2, state: { seen: [0, 1] } });
  expect(await ended(thrown.id)).toEqual({
    status: "failed",
    error: expect.stringContaining("not an error"),
  });
  expect(await ended(bad.id)).toEqual({ status: "failed", error: expect.stringContaining("result.big") });
  expect(await readRow(database, bad.id)).toMatchObject({ attempt: 0 });
  expect(await readAudit(database, bad.id)).toHaveLength(1);
});

test("retry of a failed instance runs the failed step again, as a new visit with attempt 0", async () => {
  const { id } = await client.insert(crasher);
  await ended(id);
  expect(await client.retry(id)).toEqual({ ok: true });
  expect(await ended(id)).toEqual({ status: "failed", error: "gave up" });
  expect((await readAudit(database, id)).map(({ attempt }) => attempt)).toEqual([0, 1, 2, 0, 1, 2]);
  expect(await client.retry((await client.insert(ok)).id)).toMatchObject({ ok: false, reason: "not_failed" });
});

test("nothing here moved in a way that the lifecycle does not know", async () => {
  expect(illegalMoves(await readHistory(database))).toEqual([]);
  expect(database.log().filter((line) => /deadlock|ERROR/.test(line))).toEqual([]);
});
