// Sessions: the ports through which executor threads post their outcomes, one a session.

import { type MessagePort, receiveMessageOnPort } from "node:worker_threads";
import { type OutcomeBatch, unpackOutcomes } from "#core/protocol/codec.js";
import type { ToRunner } from "#core/protocol/flusher.js";
import type { WireOutcome } from "#core/protocol/outcome.js";

export interface Session {
  thread: number;
  session: number;
  port: Pick<MessagePort, "postMessage" | "close">;
  /** Its thread is gone, or takes nothing more: no step runs ahead in it. */
  isOver: boolean;
}

/** Ports that have closed. Node 20 ends the process with a segmentation fault when such a port is read in its "close" event. */
const closed = new WeakSet<object>();

export type Receive = (session: Session, outcomes: readonly WireOutcome[]) => void;

/** Listens on a session's port from now on. */
export function openSession(
  facts: { thread: number; session: number; port: MessagePort },
  receive: Receive,
): Session {
  const session = { ...facts, isOver: false };
  facts.port.once("close", () => closed.add(facts.port));
  facts.port.on("message", (batch: OutcomeBatch) => receive(session, unpackOutcomes(batch)));
  return session;
}

/** Reads what a dead thread has posted to the last message, and closes the port. */
export function drainSession(session: Session, receive: Receive): void {
  // Only openSession makes sessions of a thread, with a real port.
  const port = session.port as MessagePort;
  session.isOver = true;
  // A port closes after its last message was delivered.
  if (closed.has(port)) return;
  for (let posted = receiveMessageOnPort(port); posted !== undefined; posted = receiveMessageOnPort(port)) {
    receive(session, unpackOutcomes(posted.message as OutcomeBatch));
  }
  port.close();
}

/** Answers a step that runs ahead. A port whose thread is gone takes it and forgets it. */
export function answerRunner(session: Session, answer: ToRunner): void {
  session.port.postMessage(answer);
}
