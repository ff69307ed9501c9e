// Event log: preloaded into a test's node, whose main thread then writes the events that GEN_DURABLE_TEST_EVENTS names to its log.

const { subscribe } = require("node:diagnostics_channel");
const { isMainThread } = require("node:worker_threads");

for (const name of isMainThread ? process.env.GEN_DURABLE_TEST_EVENTS.split(",") : []) {
  subscribe(`gen-durable:${name}`, (fields) => {
    process.stderr.write(`${JSON.stringify({ level: 20, msg: `event ${name}`, ...fields })}\n`);
  });
}
