// BullMQ on Redis: one worker, 100 jobs at once, `addBulk` of 2,000, FlowProducer for parents. Finished jobs are kept, as it does by default.
// What a commit is worth is the Redis server's setting (redis.ts starts one of each).

import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import IORedis from "ioredis";
import { versionOf } from "../clock.mjs";

export const versions = { bullmq: versionOf("bullmq") };

const BULK_ROWS = 2_000;
const CONCURRENCY = 100;

const connectionTo = (url) => new IORedis(url, { maxRetriesPerRequest: null });
const queueOf = (url, name) => new Queue(name, { connection: connectionTo(url) });

export async function setUp(url) {
  const redis = connectionTo(url);
  await redis.flushall();
  await redis.quit();
}

export async function bulk(url, { count, kind }) {
  const queue = queueOf(url, kind);
  for (let from = 0; from < count; from += BULK_ROWS)
    await queue.addBulk(
      Array.from({ length: Math.min(BULK_ROWS, count - from) }, (_, n) => ({
        name: kind,
        data: { n: from + n, step: 1 },
      })),
    );
  await queue.close();
}

export async function startWorker(url, { workload, options, hooks }) {
  const open = [];
  const work = (name, handle) => {
    const worker = new Worker(name, handle, { connection: connectionTo(url), concurrency: CONCURRENCY });
    worker.on("error", (error) => console.error(`bullmq: ${error.message}`));
    open.push(worker);
    return worker.waitUntilReady();
  };
  if (workload === "drain" || workload === "latency")
    await work("one", async ({ data }) => {
      hooks.started(workload === "latency" ? data.n : undefined);
      hooks.ended();
      return data.n;
    });
  if (workload === "chain") {
    const queue = queueOf(url, "chain");
    open.push(queue);
    await work("chain", async ({ data }) => {
      hooks.started();
      if (data.step < options.steps) await queue.add("chain", { n: data.n, step: data.step + 1 });
      else hooks.ended();
    });
  }
  const flows = new FlowProducer({ connection: connectionTo(url) });
  open.push(flows);
  if (workload === "fanOut") {
    await work("child", async ({ data }) => data.n);
    await work("join", async () => hooks.ended());
  }
  return {
    stop: () => Promise.all(open.map((each) => each.close(true))),
    fanOut: (parents, children) =>
      Promise.all(
        Array.from({ length: parents }, (_, parent) =>
          flows.add({
            name: "join",
            queueName: "join",
            data: { parent },
            children: Array.from({ length: children }, (_, n) => ({
              name: "child",
              queueName: "child",
              data: { parent, n },
            })),
          }),
        ),
      ),
  };
}

export async function startProducer(url) {
  const queue = queueOf(url, "one");
  await queue.waitUntilReady();
  return { send: (n) => queue.add("one", { n, step: 1 }), close: () => queue.close() };
}

/** Jobs that have not been completed. */
export async function countLeft(url) {
  const redis = connectionTo(url);
  let left = 0;
  for (const queue of ["one", "chain", "child", "join"]) {
    for (const list of ["wait", "active"]) left += await redis.llen(`bull:${queue}:${list}`);
    for (const set of ["delayed", "prioritized", "waiting-children", "failed"])
      left += await redis.zcard(`bull:${queue}:${set}`);
  }
  await redis.quit();
  return left;
}

/** Tells of each `one` that is completed. */
export async function watchEnds(url, ended) {
  const connection = connectionTo(url);
  const events = new QueueEvents("one", { connection });
  await events.waitUntilReady();
  events.on("completed", ({ returnvalue }) => ended(Number(returnvalue)));
  return {
    close: async () => {
      await events.close();
      // A connection that was handed over is its owner's to end.
      connection.disconnect();
    },
  };
}
