// Faults of nodes: killed, stopped and continued, drained, joined, with another configuration or another clock.

import type { Berth, Fleet } from "../fleet.js";
import type { FaultKind, FaultScene } from "./fault.js";

const HOUR_MS = 3_600_000;

function nodeFault(name: string, run: (scene: FaultScene, berth: Berth) => Promise<void>): FaultKind {
  return {
    name,
    needs: "berth",
    run: async (scene, berth) => {
      if (berth === undefined) throw new Error(`${name} needs a berth`);
      await run(scene, berth);
    },
  };
}

/** Starts a node in the berth and waits until it works. */
async function restart(fleet: Fleet, berth: Berth, skewMs = 0): Promise<void> {
  await fleet.start(berth, skewMs).ready;
}

export const killNode = nodeFault("node killed", async ({ random, fleet, pause }, berth) => {
  await fleet.stop(berth, "SIGKILL");
  await pause(random.between(0, 1_500));
  await restart(fleet, berth);
});

export const stopNode = nodeFault("node stopped and continued", async ({ random, ledger, pause }, berth) => {
  const { node } = berth;
  if (node === undefined) return;
  const isOver = ledger.trouble(node.pid, "stopped");
  node.signal("SIGSTOP");
  // Shorter than a lease, longer than a lease, longer than a node may be silent.
  await pause(
    random.pick([random.between(200, 2_500), random.between(5_200, 7_000), random.between(10_500, 12_000)]),
  );
  node.signal("SIGCONT");
  isOver();
});

export const drainNode = nodeFault("node leaves and joins", async ({ random, fleet, pause }, berth) => {
  await fleet.stop(berth, "SIGTERM");
  await pause(random.between(0, 1_000));
  await restart(fleet, berth);
});

export const changeConfig = nodeFault("config changed", async ({ fleet }, berth) => {
  fleet.generation++;
  await fleet.stop(berth, "SIGTERM");
  await restart(fleet, berth);
});

export const skewClock = nodeFault("clock skewed", async ({ random, fleet }, berth) => {
  await fleet.stop(berth, "SIGTERM");
  await restart(fleet, berth, random.pick([-24, -1, 0.01, 1, 24]) * HOUR_MS);
});

export const guest: FaultKind = {
  name: "guest node",
  needs: "nothing",
  run: async ({ random, fleet, pause }) => {
    const berth = await fleet.open(`guest-${random.between(1, 1e9)}`, random.between(-60_000, 60_000));
    berth.isBusy = true;
    await berth.node?.ready;
    await pause(random.between(2_000, 6_000));
    await fleet.close(berth, random.chance(0.5) ? "SIGTERM" : "SIGKILL");
  },
};
