// Flusher thread: wires the ports. The work is in flusher.ts (when) and committer.ts (how).
// An error that nothing explains ends the process: it is thrown here and reaches the coordinator as the worker's "error".

import { parentPort, workerData } from "node:worker_threads";
import { monotonicMs } from "#core/clock.js";
import { InvariantError, unreachable } from "#core/errors.js";
import { Ledger } from "#core/ledger.js";
import type { FlusherTask, FromFlusher, ToFlusher } from "#core/protocol/flusher.js";
import { Committer } from "./committer.js";
import { Flusher } from "./flusher.js";
import { drainSession, openSession, type Receive, type Session } from "./sessions.js";

if (parentPort === null)
  throw new InvariantError("the flusher's entry runs in a thread of the coordinator only");
const port = parentPort;
// The coordinator starts this thread, with this task.
const task = workerData as FlusherTask;
const ledger = new Ledger(task.ledger);
const report = (message: FromFlusher): void => port.postMessage(message);

const committer = new Committer({
  database: task.database,
  leaseTtlMs: task.leaseTtlMs,
  poke: task.poke,
  report,
  onOwedPokes: (payloads) => flusher.owePokes(payloads),
});
const flusher: Flusher = new Flusher({
  flusher: task.flusher,
  ledger,
  maxBatch: task.maxBatch,
  maxDelayMs: task.maxDelayMs,
  trustMs: task.trustMs,
  committer,
  report,
  fatal,
  nowMs: monotonicMs,
});

const sessions = new Map<number, Session>();
const receive: Receive = (session, outcomes) => flusher.receive(session, outcomes);

port.on("message", (message: ToFlusher) => {
  switch (message.type) {
    case "attach":
      sessions.set(message.session, openSession(message, receive));
      message.port.on("close", () => endSession(message.session));
      return;
    case "lost":
      endSession(message.session);
      flusher.giveBack(message.rows);
      return;
    case "handBack":
      flusher.giveBack(message.rows);
      return;
    case "suspect":
      committer.suspect();
      return;
    case "drain":
      for (const id of [...sessions.keys()]) endSession(id);
      flusher.drain();
      return;
    default:
      unreachable(message);
  }
});

/** Takes the last of what the session's thread has posted; nothing more of it is on the way. */
function endSession(id: number): void {
  const session = sessions.get(id);
  if (session === undefined) return;
  sessions.delete(id);
  drainSession(session, receive);
  ledger.nothingOnTheWay(session.thread, task.flusher);
  flusher.consider();
}

function fatal(error: unknown): void {
  const { message, stack } = error as Error;
  report({
    type: "log",
    level: "error",
    message: `the flusher cannot go on: ${message}`,
    fields: { flusher: task.flusher, stack },
  });
  // Out of every promise, so that it ends the thread.
  setImmediate(() => {
    throw error;
  });
}

committer.open().then(() => report({ type: "ready" }), fatal);
