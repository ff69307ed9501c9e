// Recovery: what became of a transaction whose COMMIT got no answer.
// R1  Committed is acknowledged as usual; in progress is waited for; anything else is sent again, and the guard decides.
// R2  A transaction id means nothing on another server or timeline: after a failover everything is sent again, and a row
//     that shows the outcome's visit and attempt counts as committed (lock.ts).
// R3  Nor does it after a crash of the server, which forgets a transaction whose log had not reached the disk and may give
//     its id again: committed is believed only while no row of it is still under the outcome's guard.

import { setTimeout as sleep } from "node:timers/promises";
import { classifyFailure } from "#core/database/failure.js";
import type { Statements } from "#core/database/statements.js";
import { plainArray, textArray } from "./arrays.js";
import type { Session } from "./env.js";
import type { Unanswered } from "./flush.js";

const LOOK_DELAY_MS = 20;
const LOOK_DELAY_MS_MAX = 500;

/** Names the server and its timeline, or null where the role may not ask. @throws when the connection is lost. */
export async function readServer(session: Session, statements: Statements): Promise<string | null> {
  try {
    const [row] = await session.run<{ server: string | null }>(statements.get("flusher/read_server"));
    return row?.server ?? null;
  } catch (error) {
    if (classifyFailure(error) === "connection") throw error;
    return null;
  }
}

/** What became of a transaction. Waits until it is over. @throws when the connection is lost. */
export async function fateOf(
  session: Session,
  statements: Statements,
  { xid, result }: Pick<Unanswered, "xid" | "result">,
): Promise<"committed" | "aborted" | "unknown"> {
  for (let delayMs = LOOK_DELAY_MS; ; delayMs = Math.min(delayMs * 2, LOOK_DELAY_MS_MAX)) {
    const status = await readStatus(session, statements, xid);
    if (status === "aborted") return status;
    if (status === "committed") {
      return (await isStillGuarded(session, statements, result)) ? "unknown" : "committed";
    }
    if (status !== "in progress") return "unknown";
    await sleep(delayMs);
  }
}

/** R3. */
async function isStillGuarded(
  session: Session,
  statements: Statements,
  { committed, continued }: Unanswered["result"],
): Promise<boolean> {
  const outcomes = [...committed, ...continued];
  const rows = await session.run(statements.get("flusher/find_guarded"), [
    plainArray(outcomes.map(({ id }) => id)),
    textArray(outcomes.map(({ claim }) => claim)),
    plainArray(outcomes.map(({ visit }) => visit)),
  ]);
  return rows.length > 0;
}

async function readStatus(session: Session, statements: Statements, xid: string): Promise<string | null> {
  try {
    const [row] = await session.run<{ status: string | null }>(statements.get("flusher/read_transaction"), [
      xid,
    ]);
    return row?.status ?? null;
  } catch (error) {
    if (classifyFailure(error) === "connection") throw error;
    // An id from the future: this server has never heard of it.
    return null;
  }
}
