// The coordinator's thread: ports in, ports out. What it does stands in coordinator.ts.

import { parentPort, workerData } from "node:worker_threads";
import { InvariantError } from "#core/errors.js";
import type { CoordinatorTask, FromCoordinator, ToCoordinator } from "#core/protocol/node.js";
import { Coordinator } from "./coordinator.js";

if (parentPort === null) throw new InvariantError("the coordinator runs as a worker thread");
const port = parentPort;
const coordinator = new Coordinator(workerData as CoordinatorTask, (message: FromCoordinator) =>
  port.postMessage(message),
);
port.on("message", (message: ToCoordinator) => coordinator.receive(message));
process.on("uncaughtException", (error) => coordinator.fatal(error));
process.on("unhandledRejection", (error) => coordinator.fatal(error));
coordinator.start();
