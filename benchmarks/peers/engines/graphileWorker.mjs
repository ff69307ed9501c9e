// graphile-worker, with the settings of its page on performance: a pool of 25, 24 jobs at once, a local queue, completions batched without a
// delay. The local queue holds 2,000 in the drain, which is faster here than the 500 of that page; 4 jobs at once are faster in the chain.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import { versionOf } from "../clock.mjs";

export const versions = { "graphile-worker": versionOf("graphile-worker") };

const BULK_ROWS = 5_000;
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(`graphile-worker: ${message}`);
});

const utilsOf = (url) => makeWorkerUtils({ connectionString: url, logger });

export async function setUp(url) {
  const utils = await utilsOf(url);
  await utils.migrate();
  await utils.release();
}

export async function bulk(url, { count, kind }) {
  const utils = await utilsOf(url);
  for (let from = 0; from < count; from += BULK_ROWS)
    await utils.addJobs(
      Array.from({ length: Math.min(BULK_ROWS, count - from) }, (_, n) => ({
        identifier: kind,
        payload: { n: from + n, step: 1 },
      })),
    );
  await utils.release();
}

export async function startWorker(url, { workload, options, hooks }) {
  const chain = workload === "chain";
  const runner = await run({
    preset: {
      worker: {
        connectionString: url,
        logger,
        maxPoolSize: chain ? 5 : 25,
        concurrentJobs: chain ? 4 : 24,
        localQueue: { size: workload === "drain" ? 2_000 : 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    noHandleSignals: true,
    taskList: {
      one: async ({ n }) => {
        hooks.started(workload === "latency" ? n : undefined);
        hooks.ended();
      },
      chain: async ({ n, step }, { addJob }) => {
        hooks.started();
        if (step < options.steps) await addJob("chain", { n, step: step + 1 });
        else hooks.ended();
      },
    },
  });
  return { stop: () => runner.stop() };
}

export async function startProducer(url) {
  const utils = await utilsOf(url);
  return { send: (n) => utils.addJob("one", { n, step: 1 }), close: () => utils.release() };
}
