// Worker: what runs in an executor thread (a Piscina task): guards, definitions, then one session until the thread ends.

import "./guards.js"; // before anything that could import user code
import type { MessagePort } from "node:worker_threads";
import { GenDurableError } from "#core/errors.js";
import { describeError } from "#core/errorText.js";
import type { FromExecutor, ToExecutor, WireError } from "#core/protocol/executor.js";
import { makeClock } from "./clock.js";
import { exitThread, installGuards, onStray, sendStdoutToStderr } from "./guards.js";
import { loadDefinitions } from "./load.js";
import { LogSink } from "./logs.js";
import type { PoolTask } from "./pool.js";
import { Session } from "./session.js";
import { stackOf } from "./stack.js";

installGuards();
sendStdoutToStderr();
// Definitions that were compiled name their sources in stacks; the switch is each thread's own.
process.setSourceMapsEnabled(true);
const now = makeClock();

/** Held to the thread's end: the pool takes its close for the proof that the thread is gone. */
const lives: MessagePort[] = [];

/** Piscina's entry: one session. Its promise never settles by itself; the session's end is the thread's. */
export default async function openSession({ session: task, life }: PoolTask): Promise<void> {
  lives.push(life);
  life.postMessage("running");
  const { control } = task;
  const logs = new LogSink(task.logPort, { thread: task.thread, now });
  const tell = (message: FromExecutor): void => control.postMessage(message);
  onStray((kind, error, run) => logStray(logs, kind, error, run?.logFields ?? {}));

  const registry = await loadDefinitions(task.modules).catch((error: unknown): never => {
    tell({ type: "refused", error: wireError(error) });
    logs.flush();
    return exitThread(0);
  });

  const session = new Session(task, {
    environment: {
      registry,
      limits: { maxPayloadBytes: task.maxPayloadBytes, rateBursts: task.rateBursts },
      crashLimit: task.crashLimit,
      now,
      makeLog: (fields) => logs.child(fields),
    },
    flushLogs: () => logs.flush(),
    logStray: (kind, error, fields) => logStray(logs, kind, error, fields),
    exit: exitThread,
  });
  onStray((kind, error, run) => session.stray(kind, error, run));
  // A step that ends its thread takes no outcome of the same turn with it.
  process.on("exit", () => session.finish());
  control.on("message", (message: ToExecutor) => session.receive(message));
  session.listen();
  tell({ type: "ready", catalogue: registry.catalogue(), digest: registry.digest() });
  await new Promise(() => {});
}

function logStray(
  logs: LogSink,
  kind: "unhandledRejection" | "uncaughtException",
  error: unknown,
  fields: Readonly<Record<string, unknown>>,
): void {
  const what =
    kind === "unhandledRejection"
      ? "a step left a rejected promise behind that nothing handled"
      : "a step left an exception behind that nothing caught";
  logs.child(fields).error({ err: { message: describeError(error), stack: stackOf(error) } }, what);
}

function wireError(error: unknown): WireError {
  return {
    code: error instanceof GenDurableError ? error.code : "ERR_GEN_DURABLE_MODULE_LOAD",
    message: describeError(error),
    stack: stackOf(error instanceof Error ? (error.cause ?? error) : error) ?? "",
  };
}
