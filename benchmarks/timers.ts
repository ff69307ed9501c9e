// timers: how late instances start that are due at random moments, and whether waiting for them makes a node talk more.
// Machine:  printed; Postgres, node and caller share it. fsync and synchronous_commit are on.
// Settings: the defaults of a node, with one queue.
// Method:   a warm-up of a tenth as many within two seconds; then all are inserted with `insertMany`, due at random within the minute that
//           begins when they have been inserted. Lateness is their step's beginning, by the machine's clock, after `eligible_at`. Chatter:
//           statements in the server's log while a node idles over an empty table, and while another idles over as many instances that are
//           due in an hour.

import { createClient } from "gen-durable";
import type { Benchmark } from "./bench.js";
import { stamped } from "./fsms/bench.js";
import { measureIdle } from "./idleChatter.js";
import { IDLE_TARGET, latenessOf } from "./latency.js";
import { median, quantile } from "./report.js";

const WARM_UP_MS = 2_000;
/** The rows are inserted before the first of them is due. */
const HEAD_START_MS = 3_000;
const GRACE_MS = 60_000;
const FAR_MS = 3_600_000;

export const timers: Benchmark = {
  name: "timers",
  about: "lateness of instances that are due at random moments, and the idle chatter meanwhile",
  options: { instances: 10_000, withinMs: 60_000, idleSeconds: 20, workers: 1 },
  async run(bench, options, report) {
    const { instances = 0, withinMs = 0, idleSeconds = 0, workers = 0 } = options;
    const database = await bench.createDatabase("timers");
    const client = createClient({ url: database.url });
    const node = await bench.startNode(database, { queues: { bench: 10 } }, workers);
    const run = async (count: number, headStartMs: number, spanMs: number): Promise<number[]> => {
      const inserted = await client.insertMany(
        stamped,
        Array.from({ length: count }, (_, n) => ({
          state: { n },
          delayMs: headStartMs + Math.random() * spanMs,
        })),
      );
      return latenessOf(
        database,
        inserted.map((answer) => answer.id),
        headStartMs + spanMs + GRACE_MS,
      );
    };
    await run(Math.ceil(instances / 10), 0, WARM_UP_MS);
    const lateness = await run(instances, HEAD_START_MS, withinMs);
    await client.close();
    await node.stop();
    report.check("lateness_p50", median(lateness), "ms after its time", "atMost", 50);
    report.check("lateness_p99", quantile(lateness, 0.99), "ms", "atMost", 200);
    const idle = { seconds: idleSeconds, workers };
    const empty = await measureIdle(bench, "idle_empty", idle);
    const waiting = await measureIdle(bench, "idle_waiting", {
      ...idle,
      prepare: async (far) => {
        const farClient = createClient({ url: far.url });
        await farClient.insertMany(
          stamped,
          Array.from({ length: instances }, () => ({ state: {}, delayMs: FAR_MS })),
        );
        await farClient.close();
      },
    });
    report.figure("idle_queries_empty", empty, "queries a second");
    report.check("idle_queries_waiting", waiting, "queries a second", "atMost", IDLE_TARGET);
  },
};
