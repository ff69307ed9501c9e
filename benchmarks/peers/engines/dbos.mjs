// DBOS Transact: a workflow is a function that is replayed from the recorded outputs of its steps. Queued workflows, 200 at once (100 in
// the chain), polled every 10 ms, a pool of 10. Inserted as its docs batch: 250 a transaction of the caller's, on four connections.

import { DBOS, DBOSClient } from "@dbos-inc/dbos-sdk";
import pg from "pg";
import { versionOf } from "../clock.mjs";

export const versions = { "@dbos-inc/dbos-sdk": versionOf("@dbos-inc/dbos-sdk") };

const APPLICATION = "peers";
const VERSION = "1";
const BULK_ROWS = 250;
const BULK_CONNECTIONS = 4;

let hooks = { started() {}, ended() {} };
let stamps = false;
let steps = 5;

DBOS.registerWorkflow(
  async ({ n }) => {
    hooks.started(stamps ? n : undefined);
    hooks.ended();
    return n;
  },
  { name: "one" },
);
DBOS.registerWorkflow(
  async ({ n }) => {
    hooks.started();
    let sum = n;
    for (let step = 1; step <= steps; step++)
      sum = await DBOS.runStep(async () => sum + 1, { name: `step${step}` });
    hooks.ended();
    return sum;
  },
  { name: "chain" },
);
const child = DBOS.registerWorkflow(async (n) => n, { name: "child" });
const parent = DBOS.registerWorkflow(
  async (children) => {
    const handles = [];
    for (let n = 0; n < children; n++)
      handles.push(await DBOS.startWorkflow(child, { queueName: "children" })(n));
    const results = await Promise.all(handles.map((handle) => handle.getResult()));
    hooks.ended();
    return results.length;
  },
  { name: "parent" },
);

async function launch(url) {
  DBOS.setConfig({
    name: APPLICATION,
    systemDatabaseUrl: url,
    systemDatabasePoolSize: 10,
    applicationVersion: VERSION,
    logLevel: "error",
    runAdminServer: false,
  });
  await DBOS.launch();
}

const openClient = (url) =>
  DBOSClient.create({
    systemDatabaseUrl: url,
    systemDatabasePoolSize: 10,
    applicationName: APPLICATION,
  });
const optionsOf = (workflowName, workflowID) => ({
  queueName: "queue",
  workflowName,
  appVersion: VERSION,
  ...(workflowID === undefined ? {} : { workflowID }),
});

export async function setUp(url, { workload }) {
  await launch(url);
  const queue = {
    minPollingIntervalMs: 10,
    workerConcurrency: workload === "chain" ? 100 : 200,
    onConflict: "always_update",
  };
  await DBOS.registerQueue("queue", queue);
  await DBOS.registerQueue("children", queue);
  await DBOS.shutdown();
}

export async function bulk(url, { count, kind }) {
  const client = await openClient(url);
  const pool = new pg.Pool({ connectionString: url, max: BULK_CONNECTIONS });
  let next = 0;
  const insertBatches = async () => {
    while (next < count) {
      const from = next;
      next = Math.min(count, from + BULK_ROWS);
      const connection = await pool.connect();
      const to = next;
      await connection.query("BEGIN");
      for (let n = from; n < to; n++) await client.enqueueInTransaction(connection, optionsOf(kind), { n });
      await connection.query("COMMIT");
      connection.release();
    }
  };
  await Promise.all(Array.from({ length: BULK_CONNECTIONS }, insertBatches));
  await pool.end();
  await client.destroy();
}

export async function startWorker(url, { workload, options, hooks: given }) {
  hooks = given;
  stamps = workload === "latency";
  steps = options.steps;
  await launch(url);
  return {
    stop: () => DBOS.shutdown(),
    fanOut: (parents, children) =>
      Promise.all(
        Array.from({ length: parents }, (_, n) =>
          DBOS.startWorkflow(parent, { workflowID: `parent-${n}` })(children),
        ),
      ),
  };
}

export async function startProducer(url) {
  const client = await openClient(url);
  return {
    send: (n) => client.enqueue(optionsOf("one", `one-${n}`), { n }),
    close: () => client.destroy(),
  };
}
