// pg-boss, with what its docs advise for throughput: batches (2,000 jobs in the drain, 500 else), two workers, bursts while batches come back
// full, LISTEN/NOTIFY. A handler gets a batch; in the chain it enqueues all next jobs with one insert. Flows join parents, looked
// at every second, which is the least it allows.

import { PgBoss } from "pg-boss";
import { versionOf } from "../clock.mjs";

export const versions = { "pg-boss": versionOf("pg-boss") };

const BULK_ROWS = 5_000;
const QUEUES = ["one", "chain", "child", "join"];

async function open(url, settings) {
  const boss = new PgBoss({ connectionString: url, max: 10, schedule: false, ...settings });
  boss.on("error", (error) => console.error(`pg-boss: ${error?.message ?? error}`));
  await boss.start();
  return boss;
}

const openClient = (url) => open(url, { supervise: false, useListenNotify: false });

export async function setUp(url) {
  const boss = await openClient(url);
  for (const queue of QUEUES) await boss.createQueue(queue, { notify: true });
  await boss.stop({ graceful: false });
}

export async function bulk(url, { count, kind }) {
  const boss = await openClient(url);
  for (let from = 0; from < count; from += BULK_ROWS)
    await boss.insert(
      kind,
      Array.from({ length: Math.min(BULK_ROWS, count - from) }, (_, n) => ({
        data: { n: from + n, step: 1 },
      })),
    );
  await boss.stop({ graceful: false });
}

export async function startWorker(url, { workload, options, hooks }) {
  const boss = await open(url, { useListenNotify: true, flowIntervalSeconds: 1 });
  const settings = {
    batchSize: workload === "drain" ? 2_000 : 500,
    localConcurrency: 2,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
  };
  if (workload === "drain" || workload === "latency")
    await boss.work("one", settings, async (jobs) => {
      for (const { data } of jobs) hooks.started(workload === "latency" ? data.n : undefined);
      hooks.ended(jobs.length);
    });
  if (workload === "chain")
    await boss.work("chain", settings, async (jobs) => {
      hooks.started();
      const next = jobs.filter(({ data }) => data.step < options.steps);
      if (next.length > 0)
        await boss.insert(
          "chain",
          next.map(({ data }) => ({ data: { n: data.n, step: data.step + 1 } })),
        );
      hooks.ended(jobs.length - next.length);
    });
  if (workload === "fanOut") {
    await boss.work("child", settings, async () => undefined);
    const joins = { ...settings, batchSize: 1, localConcurrency: 1, notifyPollingIntervalSeconds: 0.5 };
    await boss.work("join", joins, async (jobs) => hooks.ended(jobs.length));
  }
  return {
    stop: () => boss.stop({ graceful: false }),
    fanOut: (parents, children) =>
      Promise.all(
        Array.from({ length: parents }, (_, parent) => {
          const jobs = Array.from({ length: children }, (_, n) => ({
            ref: `child${n}`,
            name: "child",
            data: { parent, n },
          }));
          const dependsOn = jobs.map(({ ref }) => ref);
          return boss.flow([...jobs, { ref: "join", name: "join", data: { parent }, dependsOn }]);
        }),
      ),
  };
}

export async function startProducer(url) {
  const boss = await openClient(url);
  return { send: (n) => boss.send("one", { n, step: 1 }), close: () => boss.stop({ graceful: false }) };
}
