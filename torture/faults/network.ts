// Faults of the network: connections that are reset, cut in the middle of a commit, or fall silent without a word.

import type { Berth } from "../fleet.js";
import type { FaultKind, FaultScene } from "./fault.js";

const CUT_WAIT_MS = 3_000;
const CUT_LOOK_MS = 20;

function linkFault(name: string, run: (scene: FaultScene, berth: Berth) => Promise<void>): FaultKind {
  return {
    name,
    needs: "berth",
    run: async (scene, berth) => {
      if (berth === undefined) throw new Error(`${name} needs a berth`);
      const isOver = scene.ledger.trouble(berth.node?.pid ?? null, name);
      await run(scene, berth);
      isOver();
    },
  };
}

export const resetConnections = linkFault("connections reset", async ({ random, pause }, berth) => {
  for (let times = random.between(1, 3); times > 0; times--) {
    berth.relay.reset(random.pick([0.3, 1]), () => random.unit());
    await pause(random.between(20, 300));
  }
});

export const cutCommits = linkFault("commits cut", async ({ random, pause }, berth) => {
  const count = random.between(1, 4);
  const wanted = berth.relay.cutCount + count;
  berth.relay.armCut(random.pick(["before", "after"]), count);
  for (let waitedMs = 0; waitedMs < CUT_WAIT_MS && berth.relay.cutCount < wanted; waitedMs += CUT_LOOK_MS)
    await pause(CUT_LOOK_MS);
  berth.relay.disarm();
});

export const blackHole = linkFault("connections black-holed", async ({ random, pause }, berth) => {
  berth.relay.blackHole(random.pick([0.4, 1]), () => random.unit(), random.between(1_000, 5_000));
  await pause(random.between(2_000, 8_000));
});

export const resetCallers: FaultKind = {
  name: "callers reset",
  needs: "nothing",
  run: async ({ random, clientRelay, pause }) => {
    for (let times = random.between(1, 3); times > 0; times--) {
      clientRelay.reset(random.pick([0.3, 1]), () => random.unit());
      await pause(random.between(10, 200));
    }
  },
};
