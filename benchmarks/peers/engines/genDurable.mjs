// gen-durable: a node with one executor thread (on two cores Postgres needs the other one), 1,000 steps at once in the one queue, commits of at most
// 1,000 outcomes. In the latency run the node's defaults. Steps run in the node's threads, which tell this one of their beginning.

import { fileURLToPath } from "node:url";
import { createClient, startNode } from "gen-durable";
import { chain, family, one } from "../fsms/peers.mjs";

export const versions = { "gen-durable": "this one" };

const MODULES = ["peers.mjs", "inline.mjs"];
const pathOf = (file) => fileURLToPath(new URL(`../fsms/${file}`, import.meta.url));

function configOf(url, { workload, options }) {
  const files = options.inline === true ? MODULES : MODULES.slice(0, 1);
  const tuned = {
    queues: { peers: 1_000 },
    flushers: [{ queues: "all", maxBatch: 1_000, maxDelayMs: 20 }],
  };
  return {
    fsms: files.map(pathOf),
    workers: 1,
    database: { url },
    ...(workload === "latency" ? { queues: { peers: 10 } } : tuned),
  };
}

export async function setUp(url) {
  const node = await startNode(configOf(url, { options: {} }), QUIET);
  await node.stop();
}

/** Errors only, on stderr. */
const QUIET = {
  log: {
    write: (level, message) => {
      if (level === "error") console.error(`gen-durable: ${message}`);
    },
    record: () => undefined,
    flush: async () => undefined,
  },
};

export async function bulk(url, { count, kind, options }) {
  const client = createClient({ url });
  const machines = { one, chain };
  if (options.inline === true) machines.chain = (await import("../fsms/inline.mjs")).chainInline;
  await client.insertMany(
    machines[kind],
    Array.from({ length: count }, (_, n) => ({ state: { n } })),
  );
  await client.close();
}

export async function startWorker(url, { workload, options, hooks }) {
  const channel = new BroadcastChannel("peers");
  channel.onmessage = ({ data }) => hooks.started(data === "begun" ? undefined : data);
  channel.unref();
  process.env.PEERS_STAMP = workload === "latency" ? "each" : "first";
  const node = await startNode(configOf(url, { workload, options }), QUIET);
  const client = createClient({ url });
  return {
    stop: async () => {
      await client.close();
      await node.stop();
      channel.close();
    },
    fanOut: (parents, children) =>
      client.insertMany(
        family,
        Array.from({ length: parents }, () => ({ state: { children } })),
      ),
  };
}

export async function startProducer(url) {
  const client = createClient({ url });
  return { send: (n) => client.insert(one, { state: { n } }), close: () => client.close() };
}
