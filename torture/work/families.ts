// Families: fan-outs and nested joins over several queues, in one round or two.

import { family } from "../machines/family.js";
import { isDone, type WorkKind } from "./work.js";

export const families: WorkKind = {
  name: "family",
  share: 3,
  size: 25,
  run: async ({ w, random, caller }) => {
    const depth = random.pick([1, 1, 1, 2, 2, 3]);
    const width =
      depth === 1 ? random.between(1, 40) : depth === 2 ? random.between(2, 6) : random.between(2, 3);
    const rounds = random.pick([1, 1, 2]);
    const queues = random.pick([["bulk"], ["bulk", "main"], ["side", "bulk", "main"]]);
    const [id] = await caller.insertMany(w, family, [{ state: { w, depth, width, rounds, queues } }]);
    if (id === undefined) throw new Error("an insert without an answer");
    // The last join is shown the children of both rounds. Inner ones have one round.
    const leaves = width ** depth * rounds;
    await caller.expect(w, id, (answer) => isDone(answer, { w, leaves }));
  },
};
