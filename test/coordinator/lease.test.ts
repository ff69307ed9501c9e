// The lease heartbeat: what it extends, what it reports lost, and that it waits for nobody.
import { beforeEach, expect, test } from "@jest/globals";
import { type HeldRow, HeldTable } from "#coordinator/held.js";
import { Lease, trustMs } from "#coordinator/lease.js";
import { monotonicMs } from "#core/clock.js";
import { Statements } from "#core/database/statements.js";
import { Ledger } from "#core/ledger.js";
import { createDatabase } from "../support/database.js";
import { insertExecuting } from "../support/rows.js";

const database = await createDatabase();
const connection = await database.connection();

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

function rig() {
  const ledger = Ledger.create({ threads: 1, queues: 1, flushers: 1 });
  const held = new HeldTable(ledger);
  const aborts: string[] = [];
  const lease = new Lease({
    leaseTtlMs: 60_000,
    heartbeatIntervalMs: 20_000,
    statements: new Statements("gen_durable"),
    held,
    ledger,
    abort: ({ row }, reason) => aborts.push(`${row.id} ${reason}`),
  });
  const hold = async (spec = {}, claimedAgoMs = 30_000): Promise<HeldRow> => {
    const id = await insertExecuting(database, "me/1", { leaseInMs: 30_000, ...spec });
    const sentAtMs = monotonicMs() - claimedAgoMs;
    return held.hold(
      {
        id,
        claim: "me/1",
        seat: -1,
        generation: 0,
        fsm: "plain",
        version: 1,
        step: "start",
        state: "{}",
        attempt: 0,
        visit: 1,
        crashes: 0,
        reaps: 0,
        queue: "default",
        priority: 0,
        awaits: [],
        awaitSeen: [],
        wokenBy: null,
        inbox: null,
        children: null,
        parentId: null,
        parentVisit: null,
        cancelReason: null,
        verdict: null,
      },
      { queueIndex: 0, claimedAtMs: sentAtMs, trustedUntilMs: sentAtMs + trustMs(60_000) },
    );
  };
  return { ledger, held, lease, hold, aborts };
}

const leaseOf = async (id: number) =>
  (
    await database.one<{ ms: number }>(
      "SELECT extract(epoch FROM lease_expires_at - now())::float8 * 1000 AS ms FROM gen_durable WHERE id = $1",
      [id],
    )
  ).ms;

test("LE1: a lease is extended, and trusted from before its statement was sent", async () => {
  const { lease, hold, ledger } = rig();
  const old = await hold();
  const before = monotonicMs();
  expect(await lease.extend(connection, { all: false })).toEqual({ extended: 1, locked: 0, lost: 0 });
  expect(await leaseOf(old.row.id)).toBeGreaterThan(50_000);
  const trusted = ledger.trustedUntilMs(old.row.seat);
  expect(trusted).toBeGreaterThanOrEqual(before + trustMs(60_000));
  expect(trusted).toBeLessThanOrEqual(monotonicMs() + trustMs(60_000));
  expect(trusted).toBeLessThan(monotonicMs() + (await leaseOf(old.row.id)));
});

test("young claims are left alone, unless all are asked for (after an outage)", async () => {
  const { lease, hold } = rig();
  await hold({}, 1_000);
  expect((await lease.extend(connection, { all: false })).extended).toBe(0);
  expect((await lease.extend(connection, { all: true })).extended).toBe(1);
});

test("REAP-04: a row that somebody else has claimed is lost: its lease is not touched, its step is told", async () => {
  const { lease, hold, aborts } = rig();
  const lost = await hold({ leaseInMs: 1_000 });
  await database.query("UPDATE gen_durable SET locked_by = 'other/1' WHERE id = $1", [lost.row.id]);
  expect(await lease.extend(connection, { all: false })).toEqual({ extended: 0, locked: 0, lost: 1 });
  expect(await leaseOf(lost.row.id)).toBeLessThan(2_000);
  expect(aborts).toEqual([`${lost.row.id} claim_lost`]);
});

test("LE4: an instance that is held under two claims is confirmed under the one that stands, and lost under the other", async () => {
  const { lease, held, hold, ledger, aborts } = rig();
  const old = await hold();
  await database.query("UPDATE gen_durable SET locked_by = 'me/2' WHERE id = $1", [old.row.id]);
  const sentAtMs = monotonicMs() - 30_000;
  const young = held.hold(
    { ...old.row, claim: "me/2", seat: -1, generation: 0 },
    { queueIndex: 0, claimedAtMs: sentAtMs, trustedUntilMs: sentAtMs + trustMs(60_000) },
  );
  expect(await lease.extend(connection, { all: false })).toEqual({ extended: 1, locked: 0, lost: 1 });
  expect(aborts).toEqual([`${old.row.id} claim_lost`]);
  expect(ledger.trustedUntilMs(old.row.seat)).toBeLessThan(sentAtMs + trustMs(60_000) + 1);
  expect(ledger.trustedUntilMs(young.row.seat)).toBeGreaterThan(sentAtMs + trustMs(60_000) + 1);
});

test("LE2: a row that a user has locked is neither waited for nor lost; the others are extended", async () => {
  const { lease, hold, aborts } = rig();
  const locked = await hold();
  const free = await hold();
  const other = await database.session();
  await other.query("BEGIN");
  await other.query("SELECT FROM gen_durable WHERE id = $1 FOR UPDATE", [locked.row.id]);
  expect(await lease.extend(connection, { all: false })).toEqual({ extended: 1, locked: 1, lost: 0 });
  expect(aborts).toEqual([]);
  expect(await leaseOf(free.row.id)).toBeGreaterThan(50_000);
  await other.query("ROLLBACK");
  expect((await lease.extend(connection, { all: false })).extended).toBe(1);
});

test("a row whose cancel is requested is told so, and stays held", async () => {
  const { lease, hold, aborts } = rig();
  const row = await hold({ cancel_requested: true });
  expect((await lease.extend(connection, { all: false })).extended).toBe(1);
  expect(aborts).toEqual([`${row.row.id} cancelled`]);
});
