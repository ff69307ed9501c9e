// The admission of next steps that run ahead: after their commit, in one transaction for many, and only for who still has its row.
import { beforeEach, expect, test } from "@jest/globals";
import { pickTransaction } from "#coordinator/claimLimited.js";
import { type HeldRow, HeldTable } from "#coordinator/held.js";
import type { Report } from "#coordinator/report.js";
import { RunAhead } from "#coordinator/runAhead.js";
import type { Connection } from "#core/database/connection.js";
import { Ledger } from "#core/ledger.js";
import { configure, gateErrors, limiter, readBuckets, statements } from "../limits/rig.js";
import { createDatabase } from "../support/database.js";
import { CLAIM } from "../support/outcomes.js";
import { insertExecuting, type RowSpec, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

const database = await createDatabase();
const connection = await database.connection();

beforeEach(async () => {
  await database.query("TRUNCATE gen_durable, signals, gen_durable_buckets, gen_durable_bucket_configs");
  await configure(database, { gate: { limit: 3, shards: 2 }, rate: { limit: 2, rate: 0.001 } });
});

/** An admission over held rows that a thread has, and what it has told. */
class Desk {
  readonly held = new HeldTable(Ledger.create({ threads: 1, queues: 1, flushers: 1 }));
  readonly admitted: number[] = [];
  readonly denied: number[] = [];
  readonly throttled: unknown[] = [];
  statements = 0;
  /** Thrown by the next transaction after its COMMIT. */
  lostAnswer: Error | undefined;
  readonly runAhead = new RunAhead({
    database: { isUp: true, statements, run: async (_, work) => this.#answer(await work(this.#counting())) },
    transaction: pickTransaction(true),
    limiter,
    throttle: {
      tell: (queue, { denials }) => this.throttled.push(...denials.map(({ key }) => ({ queue, key }))),
    },
    held: this.held,
    report: { event: () => undefined, trouble: () => undefined } as Partial<Report> as Report, // what it calls
    admitted: (rows) => this.admitted.push(...rows.map(({ row }) => row.id)),
    denied: (rows) => this.denied.push(...rows.map(({ row }) => row.id)),
  });

  /** Rows as the commits of chains leave them. */
  async rows(count: number, spec: RowSpec): Promise<HeldRow[]> {
    const rows: HeldRow[] = [];
    for (let n = 0; n < count; n++) {
      const id = await insertExecuting(database, CLAIM, { visit: 2, ...spec });
      rows.push(this.#hold(id));
    }
    return rows;
  }

  #hold(id: number): HeldRow {
    const row = { id, claim: CLAIM, visit: 2, queue: "default", seat: -1, generation: 0 } as HeldRow["row"]; // what is read of it
    const held = this.held.hold(row, { queueIndex: 0, claimedAtMs: 0, trustedUntilMs: 1e9 });
    held.thread = 0;
    return held;
  }

  #counting(): Connection {
    return {
      run: (...args: Parameters<Connection["run"]>) => {
        this.statements++;
        return connection.run(...args);
      },
      command: (text: string) => {
        this.statements++;
        return connection.command(text);
      },
    } as Connection; // what an admission uses of it
  }

  #answer<T>(answer: T): T {
    const error = this.lostAnswer;
    this.lostAnswer = undefined;
    if (error !== undefined) throw error;
    return answer;
  }

  answered(count: number): Promise<unknown> {
    return until(() => this.admitted.length + this.denied.length === count);
  }
}

const slotsInUse = async (): Promise<number> =>
  (await readBuckets(database)).reduce((sum, { capacity, available }) => sum + capacity - available, 0);

const GATED: RowSpec = { concurrency_key: "gate", concurrency_shard: -1 };

test("STM-10: many chains are admitted by one transaction of six statements, and each gets its shard", async () => {
  const desk = new Desk();
  const rows = await desk.rows(10, GATED);
  desk.runAhead.ask(rows);
  await desk.answered(10);
  expect(desk.admitted).toEqual(rows.slice(0, 3).map(({ row }) => row.id));
  expect(desk.denied).toEqual(rows.slice(3).map(({ row }) => row.id));
  expect(desk.throttled).toEqual([{ queue: "default", key: "gate" }]);
  expect(desk.statements).toBe(6);
  expect((await readBuckets(database)).map(({ available }) => available)).toEqual([0, 0]);
  expect(await gateErrors(database)).toEqual([]);
  expect(await readRow(database, desk.denied[0] ?? 0)).toMatchObject({
    concurrency_shard: -1,
    status: "executing",
  });
});

test("RA1: who has lost its row, or is at another visit by now, draws nothing and is told nothing", async () => {
  const desk = new Desk();
  const rows = await desk.rows(3, GATED);
  const [mine, taken, moved] = rows.map(({ row }) => row.id);
  await database.query("UPDATE gen_durable SET locked_by = 'another/1' WHERE id = $1", [taken]);
  await database.query("UPDATE gen_durable SET visit = 3 WHERE id = $1", [moved]);
  desk.runAhead.ask(rows);
  await desk.answered(1);
  expect(desk.admitted).toEqual([mine]);
  expect(await slotsInUse()).toBe(1);
  expect(await readRow(database, taken ?? 0)).toMatchObject({ concurrency_shard: -1 });
  for (const { row } of rows) desk.held.release(row.seat, row.generation);
  await desk.runAhead.stop();
});

test("a row that somebody has locked is asked for again, and the others do not wait for it", async () => {
  const desk = new Desk();
  const rows = await desk.rows(2, GATED);
  const [locked, free] = rows.map(({ row }) => row.id);
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT 1 FROM gen_durable WHERE id = $1 FOR UPDATE", [locked]);
  desk.runAhead.ask(rows);
  await desk.answered(1);
  expect(desk.admitted).toEqual([free]);
  await holder.query("COMMIT");
  await desk.answered(2);
  expect(desk.admitted).toEqual([free, locked]);
  expect(await gateErrors(database)).toEqual([]);
});

test("more locked rows than one transaction asks for are asked for again with pauses, too", async () => {
  const desk = new Desk();
  const rows = await desk.rows(600, { rate_limit: "rate" });
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT 1 FROM gen_durable FOR UPDATE");
  desk.runAhead.ask(rows);
  await holder.query("SELECT pg_sleep(0.5)");
  expect(desk.statements).toBeLessThan(100);
  await holder.query("COMMIT");
  await desk.answered(600);
  expect(desk.admitted).toHaveLength(2);
});

test("RA4: when the answer of the commit is lost it is asked again, and no slot is drawn twice", async () => {
  const desk = new Desk();
  desk.lostAnswer = Object.assign(new Error("connection lost"), { code: "08006" });
  const rows = await desk.rows(1, GATED);
  desk.runAhead.ask(rows);
  await desk.answered(1);
  expect(desk.admitted).toEqual([rows[0]?.row.id]);
  expect(await slotsInUse()).toBe(1);
  expect(await gateErrors(database)).toEqual([]);
});

test("a rate that is spent denies, and takes no slot of the gate beside it", async () => {
  const desk = new Desk();
  desk.runAhead.ask(await desk.rows(3, { ...GATED, rate_limit: "rate" }));
  await desk.answered(3);
  expect([desk.admitted.length, desk.denied.length]).toEqual([2, 1]);
  expect(await gateErrors(database)).toEqual([]);
  const rate = (await readBuckets(database)).find(({ kind }) => kind === "rate");
  expect(rate?.available).toBeLessThan(1);
});

test("a gate whose limit is gone denies: the picker knows the key as exclusive then", async () => {
  const desk = new Desk();
  await database.query("DELETE FROM gen_durable_bucket_configs");
  desk.runAhead.ask(await desk.rows(1, GATED));
  await desk.answered(1);
  expect(desk.denied).toHaveLength(1);
});
