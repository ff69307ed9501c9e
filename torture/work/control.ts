// Control: cancels and retries that race completions, correlation keys that are fought for, jobs, and poison.

import { chain } from "../machines/chain.js";
import { POISONS, poison } from "../machines/poison.js";
import { errand, guarded } from "../machines/sabotage.js";
import { bystander, fragile, roamer, victim } from "../machines/waiting.js";
import { isDone, type Work, type WorkKind } from "./work.js";

export const cancels: WorkKind = {
  name: "cancel",
  share: 3,
  size: 6,
  run: async (work) => {
    await Promise.all(work.random.list(6, () => 0).map(() => runCancel(work)));
  },
};

async function runCancel({ w, random, caller }: Work): Promise<void> {
  const cleans = random.chance(0.6);
  const holdMs = random.pick([random.between(0, 400), random.between(0, 400), random.between(400, 2_500)]);
  const parks = random.chance(0.5);
  const afterMs = random.between(0, 400);
  const force = random.chance(0.3);
  const again = force && random.chance(0.7);
  const [id] = cleans
    ? await caller.insertMany(w, victim, [{ state: { w, parks, holdMs: holdMs + 1 } }])
    : await caller.insertMany(w, bystander, [{ state: { w, holdMs } }]);
  if (id === undefined) throw new Error("an insert without an answer");
  await caller.pause(afterMs);
  const answer = await caller.cancel(w, id, `cancel ${w}`, force);
  if (answer === "cancelled" && again) {
    // The step that was cut off may still run when its instance is claimed again.
    await caller.retry(w, id);
    await caller.end(w, id);
    return;
  }
  // Ended before: as it would by itself, or by a try of this call that was not answered.
  await caller.expect(w, id, (end) => {
    const wasCancelled = end.status === "failed" && (end.error ?? "").startsWith("cancelled");
    const cleanedUp = isDone(end, { w, cancelled: true });
    const finished = isDone(end, { w, cancelled: false });
    if (answer === "cancelled") return wasCancelled;
    if (answer === "cancelling") return cleans ? cleanedUp : wasCancelled;
    return answer === "already_done" && (finished || cleanedUp || wasCancelled);
  });
}

/** Failed instances are retried, twice at once. */
export const clientRetries: WorkKind = {
  name: "again",
  share: 2,
  size: 3,
  run: async ({ w, random, caller }) => {
    const ids = await caller.insertMany(
      w,
      fragile,
      random.list(3, () => ({ state: { w, fails: random.between(1, 3) } })),
    );
    await Promise.all(
      ids.map(async (id) => {
        for (;;) {
          const end = await caller.end(w, id);
          if (end === null || end.status === "done") return;
          await Promise.all([caller.retry(w, id), caller.retry(w, id)]);
        }
      }),
    );
  },
};

/** Who gets a key? Inserts that race for few keys, and instances that leave their scope and come back. */
export const identities: WorkKind = {
  name: "identity",
  share: 3,
  size: 8,
  run: async ({ w, random, caller }) => {
    const key = `shared:${random.between(1, 10)}`;
    const roams = random.chance(0.4);
    const calls = random.list(4, () =>
      roams
        ? () =>
            caller.insertKeyed(w, roamer, {
              state: { w, rounds: random.between(1, 3), napMs: random.between(20, 200) },
              correlationKey: `roam:${key}`,
              correlationScope: ["runnable", "executing"],
            })
        : () =>
            caller.insertKeyed(w, chain, { state: { w, hops: random.between(0, 3) }, correlationKey: key }),
    );
    const results = await Promise.all(calls.map((call) => call()));
    await Promise.all(
      results.map(async (result) => {
        if (result.ok) await caller.expect(w, result.id, (answer) => isDone(answer, { w }));
      }),
    );
  },
};

export const jobs: WorkKind = {
  name: "job",
  share: 2,
  size: 6,
  run: async ({ w, random, caller }) => {
    const ids = await caller.insertMany(
      w,
      errand,
      random.list(6, () => ({
        state: { w, failures: random.between(0, 3) },
        priority: random.between(-2, 2),
      })),
    );
    await Promise.all(ids.map((id) => caller.expect(w, id, (answer) => isDone(answer, { w }))));
  },
};

export const poisons: WorkKind = {
  name: "poison",
  share: 2,
  size: 5,
  run: async ({ w, random, caller }) => {
    const plans = random.list(5, () => ({ how: random.pick(POISONS), mends: random.chance(0.6) }));
    const ids = await caller.insertMany(
      w,
      poison,
      plans.map((plan) => ({ state: { w, ...plan } })),
    );
    await Promise.all(
      ids.map((id, n) => {
        const { mends = false, how = "" } = plans[n] ?? {};
        return caller.expect(w, id, (answer) =>
          mends || how === "stray rejection"
            ? isDone(answer, { w, mended: true })
            : answer.status === "failed" && (answer.error ?? "").startsWith(`poisoned: ${how}`),
        );
      }),
    );
  },
};

/** Visits that must not run twice. Some end their thread in the middle. */
export const guards: WorkKind = {
  name: "guarded",
  share: 1,
  size: 3,
  run: async ({ w, random, caller }) => {
    const ids = await caller.insertMany(
      w,
      guarded,
      random.list(3, () => ({ state: { w, exits: random.chance(0.15) } })),
    );
    await Promise.all(
      ids.map((id) => caller.expect(w, id, (answer) => isDone(answer, { w }) || isHandleLost(answer))),
    );
  },
};

/** Two faults in a row: the visit was lost, and so was its `handle`. Then nothing of it runs any more. */
function isHandleLost({ status, error }: { status: string; error?: string | null }): boolean {
  return status === "failed" && (error ?? "").endsWith("its handle was lost the same way");
}
