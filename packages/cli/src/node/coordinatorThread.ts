// CoordinatorThread: the coordinator's worker thread as the main thread sees it: messages out, messages in, and its end.

import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import type { CoordinatorTask, FromCoordinator, ToCoordinator } from "#core/protocol/node.js";

export interface CoordinatorThread {
  send(message: ToCoordinator): void;
  /** Resolves with the exit code when the thread is gone; with the error that ended it, where there was one. */
  ended: Promise<{ code: number; error: Error | undefined }>;
  terminate(): Promise<void>;
}

/** Starts the thread. `onLogPort` gets the port of each executor session's log. */
export function startCoordinatorThread(
  task: Omit<CoordinatorTask, "logPort">,
  options: {
    env: NodeJS.ProcessEnv;
    onMessage(message: FromCoordinator): void;
    onLogPort(port: MessagePort): void;
  },
): CoordinatorThread {
  const logs = new MessageChannel();
  const worker = new Worker(new URL("../../coordinator/thread.js", import.meta.url), {
    name: "coordinator",
    workerData: { ...task, logPort: logs.port2 } satisfies CoordinatorTask,
    transferList: [logs.port2],
    env: options.env,
  });
  logs.port1.on("message", options.onLogPort);
  logs.port1.unref();
  worker.on("message", options.onMessage);
  let error: Error | undefined;
  worker.on("error", (cause: Error) => {
    error = cause;
  });
  return {
    send: (message) => worker.postMessage(message),
    ended: new Promise((resolve) => {
      worker.once("exit", (code) => {
        logs.port1.close();
        resolve({ code, error });
      });
    }),
    terminate: async () => {
      await worker.terminate();
    },
  };
}
