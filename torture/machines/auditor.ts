// Auditor: a thread's log of what its steps really did, over a connection of its own that the engine knows nothing of.
// AU1  A run is on record, with the moment by the database's clock and what its row looked like then, before its body
//      goes on; its end is on record before its outcome is handed over.
// AU2  What is not answered is sent again; a run is on record once. How long that took is on record as well, so that the
//      checker does not judge what a stopped process or a dead database has blurred.
// AU3  That user code has begun is written to a file first, synchronously: it survives every death but the machine's.

import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { threadId } from "node:worker_threads";
import pg from "pg";

export interface RunRecord {
  run: string;
  id: number;
  fsm: string;
  step: string;
  visit: number;
  attempt: number;
  /** "step" or "handle". */
  kind: string;
  /** What the run was handed, as JSON. */
  state: string;
  /** Signals that ended the wait. */
  awaited: readonly number[];
  /** All unread signals. */
  inbox: readonly number[];
  wokenBy: string | null;
  /** Status by child, as JSON; null where there are none. */
  children: string | null;
}

interface EndRecord {
  run: string;
  tookMs: number;
}

const RETRY_MS = 50;
/** What comes close together is written together: the audit's statements are not to be the load. */
const GATHER_MS = 4;
const BATCH_MAX = 200;
/** A connection that does not answer is given up. */
const ANSWER_TIMEOUT_MS = 5_000;

interface Waiting<T> {
  record: T;
  written: () => void;
}

class Auditor {
  readonly #url: string;
  #client: pg.Client | undefined;
  #begins: Waiting<RunRecord>[] = [];
  #ends: Waiting<EndRecord>[] = [];
  #writing = false;

  constructor(url: string) {
    this.#url = url;
  }

  begin(record: RunRecord): Promise<void> {
    return new Promise((written) => {
      this.#begins.push({ record, written });
      void this.#write();
    });
  }

  end(record: EndRecord): Promise<void> {
    return new Promise((written) => {
      this.#ends.push({ record, written });
      void this.#write();
    });
  }

  async #write(): Promise<void> {
    if (this.#writing) return;
    this.#writing = true;
    while (this.#begins.length > 0 || this.#ends.length > 0) {
      await sleep(GATHER_MS);
      const begins = this.#begins.splice(0, BATCH_MAX);
      const ends = this.#ends.splice(0, BATCH_MAX);
      while (!(await this.#tryWrite(begins, ends))) await sleep(RETRY_MS);
      for (const { written } of [...begins, ...ends]) written();
    }
    this.#writing = false;
  }

  async #tryWrite(
    begins: readonly Waiting<RunRecord>[],
    ends: readonly Waiting<EndRecord>[],
  ): Promise<boolean> {
    try {
      const client = await this.#connected();
      const answers = [];
      if (begins.length > 0) answers.push(client.query(beginQuery(begins.map(({ record }) => record))));
      if (ends.length > 0) answers.push(client.query(endQuery(ends.map(({ record }) => record))));
      await Promise.all(answers);
      return true;
    } catch {
      this.#client?.end().catch(() => undefined);
      this.#client = undefined;
      return false;
    }
  }

  async #connected(): Promise<pg.Client> {
    if (this.#client !== undefined) return this.#client;
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: "torture audit",
      // Commits that a fault slows down are the engine's, not ours. Rows are looked up one by one: a plan that was made
      // while the tables were small would read all of them.
      options:
        "-c synchronous_commit=local -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off",
      connectionTimeoutMillis: ANSWER_TIMEOUT_MS,
      query_timeout: ANSWER_TIMEOUT_MS,
    });
    client.on("error", () => {
      this.#client = undefined;
    });
    await client.connect();
    this.#client = client;
    return client;
  }
}

function beginQuery(records: readonly RunRecord[]): pg.QueryConfig {
  return {
    name: "begin",
    text: `
      INSERT INTO torture.runs (run, id, fsm, step, visit, attempt, kind, awaited, inbox, woken_by, children, pid, thread, clock_ms,
                                begun_at, seen_status, seen_visit, seen_attempt, seen_step, seen_claim, same_state)
      SELECT b.run, b.id, b.fsm, b.step, b.visit, b.attempt, b.kind, b.awaited::bigint[], b.inbox::bigint[], b.woken_by,
             b.children::jsonb, $12, $13, $14,
             clock_timestamp(), g.status, g.visit, g.attempt, g.step, g.locked_by, g.state = b.state::jsonb
        FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::int[], $6::int[], $7::text[], $8::text[],
                    $9::text[], $10::text[], $11::text[], $15::text[])
             AS b (run, id, fsm, step, visit, attempt, kind, state, awaited, inbox, woken_by, children)
        LEFT JOIN gen_durable.gen_durable g ON g.id = b.id
      ON CONFLICT (run) DO NOTHING`,
    values: [
      records.map(({ run }) => run),
      records.map(({ id }) => id),
      records.map(({ fsm }) => fsm),
      records.map(({ step }) => step),
      records.map(({ visit }) => visit),
      records.map(({ attempt }) => attempt),
      records.map(({ kind }) => kind),
      records.map(({ state }) => state),
      records.map(({ awaited }) => `{${awaited.join(",")}}`),
      records.map(({ inbox }) => `{${inbox.join(",")}}`),
      records.map(({ wokenBy }) => wokenBy),
      process.pid,
      threadId,
      Date.now(),
      records.map(({ children }) => children),
    ],
  };
}

function endQuery(records: readonly EndRecord[]): pg.QueryConfig {
  return {
    name: "end",
    text: `
      UPDATE torture.runs r SET ended_at = coalesce(r.ended_at, clock_timestamp()), took_ms = e.took
        FROM unnest($1::text[], $2::float8[]) AS e (run, took) WHERE r.run = e.run`,
    values: [records.map(({ run }) => run), records.map(({ tookMs }) => tookMs)],
  };
}

let auditor: Auditor | undefined;
const boot = Math.floor(performance.timeOrigin).toString(36);
let runs = 0;

function environment(name: string): string {
  const value = process.env[name];
  if (value === undefined)
    throw new Error(`${name} is not set: these machines run under the torture harness`);
  return value;
}

/** Puts the beginning of a run on record and gives its name, and a way to record its end. */
export async function recordRun(
  facts: Omit<RunRecord, "run">,
): Promise<{ run: string; end: () => Promise<void> }> {
  const { id, visit, attempt } = facts;
  appendFileSync(`${environment("TORTURE_JOURNAL")}/${process.pid}`, `${id} ${visit} ${attempt}\n`);
  auditor ??= new Auditor(environment("TORTURE_AUDIT_URL"));
  const own = auditor;
  const run = `${process.pid}.${threadId}.${boot}.${++runs}`;
  const startMs = performance.now();
  await own.begin({ run, ...facts });
  const tookMs = performance.now() - startMs;
  return { run, end: () => own.end({ run, tookMs }) };
}
