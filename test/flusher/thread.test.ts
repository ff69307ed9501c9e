// The flusher thread, over its messages: what an executor posts is committed and answered, whatever dies.
import { once } from "node:events";
import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { afterEach, expect, test } from "@jest/globals";
import { Ledger } from "#core/ledger.js";
import { packOutcomes } from "#core/protocol/codec.js";
import type { FlushedRow, FlusherTask, FromFlusher, LostRow, ToFlusher } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";
import { createDatabase } from "../support/database.js";
import { CLAIM, done, executingRows, next, outcomeOf } from "../support/outcomes.js";
import { insertExecuting, readRow } from "../support/rows.js";
import { until } from "../support/until.js";

const database = await createDatabase();
const threads: FlusherThread[] = [];

afterEach(async () => {
  for (const thread of threads.splice(0)) await thread.worker.terminate();
  await database.query("TRUNCATE gen_durable, signals");
});

class FlusherThread {
  readonly ledger = Ledger.create({ threads: 2, queues: 1, flushers: 1 });
  readonly messages: FromFlusher[] = [];
  readonly worker: Worker;

  constructor(task: Partial<FlusherTask> = {}) {
    this.worker = new Worker(new URL("../../packages/cli/dist/flusher/thread.js", import.meta.url), {
      workerData: {
        flusher: 0,
        database: database.settings(),
        ledger: this.ledger.memory,
        maxBatch: 100,
        maxDelayMs: 50,
        leaseTtlMs: 60_000,
        trustMs: 57_000,
        node: "node",
        poke: "postgres",
        ...task,
      } satisfies FlusherTask,
    });
    this.worker.on("message", (message: FromFlusher) => this.messages.push(message));
    threads.push(this);
  }

  send(message: ToFlusher, ports: MessagePort[] = []): void {
    this.worker.postMessage(message, ports);
  }

  attach(thread: number, session: number): MessagePort {
    const { port1, port2 } = new MessageChannel();
    this.send({ type: "attach", thread, session, port: port2 }, [port2]);
    return port1;
  }

  post(port: MessagePort, outcomes: WireOutcome[]): void {
    for (const _ of outcomes) this.ledger.outcomeLeaves(0, 0);
    port.postMessage(packOutcomes(outcomes));
  }

  of<T extends FromFlusher["type"]>(type: T): Extract<FromFlusher, { type: T }>[] {
    return this.messages.filter(
      (message): message is Extract<FromFlusher, { type: T }> => message.type === type,
    );
  }

  answered(): number[] {
    const seats = (rows: readonly FlushedRow[]) => rows.map((row) => row.seat);
    return this.of("flushed").flatMap(({ committed, stale }) => [...seats(committed), ...seats(stale)]);
  }
}

const lostRow = (id: number, begun: boolean): LostRow => ({
  id,
  claim: CLAIM,
  seat: id,
  generation: 1,
  begun,
});

test("outcomes are committed and answered; the ledger is back to nothing", async () => {
  const thread = new FlusherThread();
  const port = thread.attach(0, 1);
  const ids = await executingRows(database, 3);
  thread.post(
    port,
    ids.map((id) => outcomeOf(id, done())),
  );
  await until(() => thread.answered().length === 3);
  expect(thread.of("ready")).toHaveLength(1);
  for (const id of ids) expect(await readRow(database, id)).toMatchObject({ status: "done" });
  expect(thread.ledger.onTheWay(0)).toBe(0);
  expect(thread.ledger.pendingBytes(0)).toBe(0);
});

test("a step that runs ahead is answered on its port", async () => {
  const thread = new FlusherThread();
  const port = thread.attach(0, 1);
  const [id = 0, other = 0] = await executingRows(database, 2);
  thread.post(port, [
    outcomeOf(id, next("b", { inline: true })),
    outcomeOf(other, next("b", { inline: true }), { claim: "somebody else" }),
  ]);
  const answers = [await once(port, "message"), await once(port, "message")].map(([message]) => message);
  expect(answers).toEqual([
    { type: "committed", tenancies: [id, 1], inputs: [] },
    { type: "left", tenancies: [other, 1] },
  ]);
  await until(() => thread.of("flushed").length > 0);
  // The row stays held: it is in neither list.
  expect(thread.of("flushed")[0]).toMatchObject({
    committed: [],
    stale: [{ seat: other }],
    continued: [{ seat: id, generation: 1, step: "b", visit: 2, needsAdmission: false }],
  });
});

test("of a lost session what was posted counts; begun rows get a crash, others go back untouched", async () => {
  const thread = new FlusherThread({ maxDelayMs: 60_000 });
  const port = thread.attach(0, 1);
  const [posted = 0, begun = 0, waiting = 0, taken = 0] = await executingRows(database, 4, { attempt: 1 });
  await database.query("UPDATE gen_durable SET locked_by = 'other' WHERE id = $1", [taken]);
  // Two are on their way and one arrives: the flusher waits for the other, which never comes.
  thread.ledger.outcomeLeaves(0, 0);
  thread.post(port, [outcomeOf(posted, done())]);
  port.close();
  const rows = [lostRow(posted, true), lostRow(begun, true), lostRow(waiting, false), lostRow(taken, true)];
  thread.send({ type: "lost", thread: 0, session: 1, rows });
  await until(() => thread.of("returned").length === 1 && thread.answered().length === 1);
  expect(thread.answered()).toEqual([posted]);
  expect(thread.of("returned")[0]?.rows.map((row) => row.seat)).toEqual([begun, waiting, taken]);
  expect(thread.of("returned")[0]?.pokes).toEqual([{ queue: "default", dueInMs: 0 }]);
  expect(await readRow(database, begun)).toMatchObject({
    status: "runnable",
    attempt: 2,
    crashes: 1,
    visit: 1,
    locked_by: null,
  });
  expect(await readRow(database, waiting)).toMatchObject({ status: "runnable", attempt: 1, crashes: 0 });
  expect(await readRow(database, taken)).toMatchObject({
    status: "executing",
    locked_by: "other",
    crashes: 0,
  });
  expect(thread.ledger.onTheWay(0)).toBe(0);
});

test("drain commits everything, however long it would have waited", async () => {
  const thread = new FlusherThread({ maxDelayMs: 60_000 });
  const port = thread.attach(0, 1);
  const ids = await executingRows(database, 2);
  thread.ledger.outcomeLeaves(0, 0);
  thread.post(
    port,
    ids.map((id) => outcomeOf(id, done())),
  );
  thread.send({ type: "drain" });
  await until(() => thread.of("drained").length === 1);
  expect(thread.answered()).toEqual(ids);
});

test("FLU-20: connections that are terminated at any moment lose nothing and do nothing twice", async () => {
  const thread = new FlusherThread({ maxBatch: 10 });
  const port = thread.attach(0, 1);
  let killed = 0;
  let over = false;
  // One commit between two deaths at least, so that a slow machine gets on too; the instant is chance.
  const killer = (async () => {
    for (let seen = -1; !over; seen = thread.answered().length) {
      await until(() => over || thread.answered().length > seen);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 15));
      const rows = await database.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gen-durable flusher' AND datname = current_database()",
      );
      killed += rows.length;
    }
  })();
  const ids = await executingRows(database, 400, { attempt: 3 });
  for (let i = 0; i < ids.length; i += 10) {
    const outcomes = ids
      .slice(i, i + 10)
      .map((id) => outcomeOf(id, { kind: "retry", state: '{"n":1}', due: null }, { attempt: 3 }));
    thread.post(port, outcomes);
  }
  await until(() => thread.answered().length === 400, { timeoutMs: 25_000 }).finally(() => {
    over = true;
    return killer;
  });
  expect(killed).toBeGreaterThan(2);
  expect(new Set(thread.answered()).size).toBe(400);
  expect(thread.of("flushed").flatMap((message) => message.stale)).toEqual([]);
  expect(await database.query("SELECT status, attempt, count(*) FROM gen_durable GROUP BY 1, 2")).toEqual([
    { status: "runnable", attempt: 4, count: 400 },
  ]);
  expect(thread.ledger.pendingBytes(0)).toBe(0);
});

test("an instance whose row is locked for long does not hold up the others, and is committed after all", async () => {
  const thread = new FlusherThread();
  const port = thread.attach(0, 1);
  const [locked = 0, free = 0] = await executingRows(database, 2);
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("SELECT 1 FROM gen_durable WHERE id = $1 FOR UPDATE", [locked]);
  thread.post(port, [outcomeOf(locked, done()), outcomeOf(free, done())]);
  await until(() => thread.answered().includes(free));
  await until(() => thread.of("event").filter((event) => event.name === "flush").length > 4, {
    describe: () => JSON.stringify(thread.messages),
  });
  expect(thread.answered()).toEqual([free]);
  await holder.query("COMMIT");
  await until(() => thread.answered().includes(locked));
  expect(thread.of("flushed").flatMap((message) => message.stale)).toEqual([]);
});

test("a bug ends the thread, with a last log line and the error", async () => {
  await database.query("ALTER TABLE gen_durable RENAME TO elsewhere");
  try {
    const thread = new FlusherThread();
    const port = thread.attach(0, 1);
    const failed = once(thread.worker, "error");
    thread.post(port, [outcomeOf(1, done())]);
    const [error] = await failed;
    expect(String(error)).toContain("does not exist");
    await until(() => thread.of("log").at(-1)?.level === "error");
  } finally {
    await database.query("ALTER TABLE elsewhere RENAME TO gen_durable");
  }
});

test("rows that are given back poke their queue for other nodes", async () => {
  const thread = new FlusherThread();
  const listener = await database.session();
  const { pokeChannel } = await import("#core/poke.js");
  await listener.query(`LISTEN ${pokeChannel("gen_durable")}`);
  const poked = once(listener, "notification");
  const id = await insertExecuting(database, CLAIM, { queue: "mail" });
  thread.send({ type: "handBack", rows: [lostRow(id, false)] });
  const [notification] = await poked;
  expect(notification.payload).toBe("mail");
});
