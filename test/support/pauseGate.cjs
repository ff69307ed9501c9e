// Pause gate: preloaded into every thread of a test's node (NodePauses in pauses.ts). A file named like a point holds its next
// arrival, which renames it: whoever can do that is the one that waits, until the renamed file is gone.

const { existsSync, renameSync } = require("node:fs");
const { join } = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");

const folder = process.env.GEN_DURABLE_TEST_PAUSES;

globalThis[Symbol.for("gen-durable.test.pauseGate")] = (point) => {
  const reached = join(folder, `${point}.reached`);
  try {
    renameSync(join(folder, point), reached);
  } catch {
    return undefined;
  }
  return wait(reached);
};

async function wait(file) {
  while (existsSync(file)) await sleep(2);
}
