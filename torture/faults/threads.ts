// Faults of threads: steps that end their thread, eat its memory, or stand in its way.

import { saboteur } from "../machines/sabotage.js";
import { isDone } from "../work/work.js";
import type { FaultKind } from "./fault.js";

function threadFault(
  name: string,
  how: "exit" | "memory" | "block" | "hang",
  ms: [number, number],
): FaultKind {
  return {
    name,
    needs: "nothing",
    run: async ({ random, caller, w, later }) => {
      const [id] = await caller.insertMany(w, saboteur, [
        // The most urgent of all, so that it meets what is there now.
        { state: { w, how, ms: random.between(...ms) }, priority: -10 },
      ]);
      if (id !== undefined) later(caller.expect(w, id, (answer) => isDone(answer, { w })));
    },
  };
}

export const exitThread = threadFault("thread exits", "exit", [0, 0]);
export const eatMemory = threadFault("thread out of memory", "memory", [0, 0]);
/** Shorter and longer than the step may take. */
export const blockThread = threadFault("thread blocked", "block", [300, 3_000]);
export const hangStep = threadFault("step hangs", "hang", [1_000, 4_000]);
