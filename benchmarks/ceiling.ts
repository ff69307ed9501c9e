// Ceiling: what the database alone can do. The claim and the flush, as the node sends them, on two connections, with nothing
// in between: no threads, no user code, no messages. What a node reaches of it is what the engine costs.

import type { Connection } from "#core/database/connection.js";
import { Statements } from "#core/database/statements.js";
import type { TestDatabase } from "../test/support/database.js";

/** Batches claimed and not yet flushed: enough that neither connection waits for the other's round trip. */
const BATCHES_AHEAD_MAX = 4;
const LEASE_MS = 60_000;
const BYTES_MAX = 16 * 1024 * 1024;

interface ClaimedRow extends Record<string, unknown> {
  id: number;
}

interface Batch {
  claim: string;
  rows: ClaimedRow[];
}

/** Takes every runnable row of the queue to done, and returns the rows a second. */
export async function measureCeiling(
  database: TestDatabase,
  rows: number,
  batchRows: number,
): Promise<number> {
  const statements = new Statements("gen_durable");
  const picker = await database.connection({ role: "ceiling picker" });
  const flusher = await database.connection({ role: "ceiling flusher" });
  await picker.run(statements.get("picker/state_session"));
  await flusher.run(statements.get("flusher/state_session"), ["1000"]);
  const startMs = performance.now();
  let flushed = 0;
  const pending: Promise<void>[] = [];
  // One transaction at a time: each flush begins when the one before has ended.
  let tail = Promise.resolve();
  for (let pick = 0; ; pick++) {
    // The first row says only what was found.
    const [, ...claimed] = await claim(picker, statements, `ceiling/${pick}`, batchRows);
    const batch = { claim: `ceiling/${pick}`, rows: claimed };
    if (batch.rows.length === 0) break;
    tail = tail.then(() => flush(flusher, statements, batch));
    pending.push(tail);
    flushed += batch.rows.length;
    if (pending.length >= BATCHES_AHEAD_MAX) await pending.shift();
  }
  await tail;
  const tookMs = performance.now() - startMs;
  await picker.close();
  await flusher.close();
  if (flushed !== rows) throw new Error(`${flushed} of ${rows} rows were claimed`);
  return rows / (tookMs / 1_000);
}

function claim(
  picker: Connection,
  statements: Statements,
  name: string,
  batchRows: number,
): Promise<ClaimedRow[]> {
  return picker.run<ClaimedRow>(statements.get("picker/claim_runnable"), [
    ...[
      "bench",
      batchRows,
      name,
      LEASE_MS,
      ["oneStep"],
      [1],
      [0],
      ["-infinity"],
      [0],
      null,
      BYTES_MAX,
      [],
      0,
    ],
  ]);
}

async function flush(flusher: Connection, statements: Statements, { claim, rows }: Batch): Promise<void> {
  // As the flusher writes them.
  const ids = `{${rows.map((row) => row.id).join(",")}}`;
  const results = `{${rows.map((row) => `"${row.id}":null`).join(",")}}`;
  await flusher.transaction(async () => {
    await flusher.run(statements.get("flusher/lock_batch"), [ids]);
    await flusher.run(statements.get("flusher/apply_done"), [ids, `{${claim}}`, results, null]);
  });
}
