// Guards: what keeps a thread alive and its output apart when user code misbehaves.
//
// U1  Nothing that user code leaves behind ends the thread: a stray rejection is logged with the instance that caused
//     it, an uncaught exception also sends its step, if it still runs, to `handle`.
// U2  What user code prints goes to stderr: stdout belongs to the command that runs the node.
// U3  The engine's timers and its way out are taken before any user code runs, who may replace the globals.

import { AsyncLocalStorage } from "node:async_hooks";
import type { StepRun } from "./step.js";

export type StrayKind = "unhandledRejection" | "uncaughtException";

export type StrayListener = (kind: StrayKind, error: unknown, run: StepRun | undefined) => void;

/** Which run a piece of user code belongs to, also long after it was started. */
export const runStorage = new AsyncLocalStorage<StepRun>();

/** Ends the thread; U3. */
export const exitThread: (code: number) => never = process.exit.bind(process);

let listener: StrayListener | undefined;

/** Says who is told of stray errors; before that they go to stderr. */
export function onStray(next: StrayListener): void {
  listener = next;
}

const onRejection = (error: unknown): void => tell("unhandledRejection", error);
const onException = (error: unknown): void => tell("uncaughtException", error);

/** Installs the handlers, for good: they come back when user code removes all listeners. */
export function installGuards(): void {
  addListeners();
  const remove = process.removeAllListeners;
  process.removeAllListeners = function removeAllListeners(...events) {
    Reflect.apply(remove, process, events);
    addListeners();
    return process;
  };
}

function addListeners(): void {
  if (!process.listeners("unhandledRejection").includes(onRejection))
    process.on("unhandledRejection", onRejection);
  if (!process.listeners("uncaughtException").includes(onException))
    process.on("uncaughtException", onException);
}

/** U2; `console` writes to the same stream. */
export function sendStdoutToStderr(): void {
  const { stderr, stdout } = process;
  stdout.write = stderr.write.bind(stderr) as typeof stdout.write; // the overloads are the same
}

function tell(kind: StrayKind, error: unknown): void {
  try {
    if (listener === undefined)
      process.stderr.write(`gen-durable: ${kind} in an executor thread: ${String(error)}\n`);
    else listener(kind, error, runStorage.getStore());
  } catch {
    // An error that cannot be told must not end the thread either.
  }
}
