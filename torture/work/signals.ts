// Signals: early, late, doubled and raced ones, with and without timeouts; packs that collect; messages that come before
// their instance.

import { pack, waiter } from "../machines/waiting.js";
import { isDone, type Work, type WorkKind } from "./work.js";

/** Waits of no, some or many rounds. Signals go on until it has ended. */
export const waits: WorkKind = {
  name: "wait",
  share: 6,
  size: 6,
  run: async (work) => {
    await Promise.all(work.random.list(6, () => 0).map(() => runWait(work)));
  },
};

async function runWait({ w, random, caller }: Work): Promise<void> {
  const names = random.pick([["go"], ["go", "come"], ["come", "go", "stay"]]);
  const timeoutMs = random.pick([null, null, random.between(50, 1_500)]);
  const rounds = random.between(1, 4);
  const doubles = random.chance(0.4);
  const retries = random.chance(0.4);
  const startsAfterMs = random.pick([
    0,
    random.between(1, 60),
    random.between(100, 1_200),
    random.between(500, 2_500),
  ]);
  const pauses = random.list(64, () => random.pick([0, 1, 5, 30, 200, random.between(300, 1_500)]));
  const chosen = random.list(64, () => random.pick(names));
  const [id] = await caller.insertMany(w, waiter, [{ state: { w, names, rounds, timeoutMs, retries } }]);
  if (id === undefined) throw new Error("an insert without an answer");
  if (startsAfterMs > 0) await caller.pause(startsAfterMs);
  const sent = new Set<number>();
  const end = caller.end(w, id);
  let isOver = false;
  const stop = (): void => {
    isOver = true;
  };
  void end.then(stop, stop);
  for (let n = 0; !isOver && !caller.isOver; n++) {
    const sig = caller.newSig();
    sent.add(sig);
    const name = chosen[n % 64] ?? "go";
    const calls = Array.from({ length: doubles ? 2 : 1 }, () =>
      caller.signal(w, id, name, sig, doubles ? `d${sig}` : undefined),
    );
    const answers = await Promise.all(calls);
    if (answers.some(({ ok }) => !ok)) break;
    await caller.pause(n < 8 ? (pauses[n % 64] ?? 0) : 500);
  }
  await caller.expect(w, id, (answer) => {
    if (answer.status !== "done") return false;
    const { heard, timeouts } = answer.result as { heard: number[]; timeouts: number };
    const isDoubled = doubles && new Set(heard).size !== heard.length;
    return heard.every((sig) => sent.has(sig)) && !isDoubled && (timeoutMs !== null || timeouts === 0);
  });
}

/** Collects without consuming; each part counts once, however often it is delivered. */
export const packs: WorkKind = {
  name: "pack",
  share: 3,
  size: 4,
  run: async ({ w, random, caller }) => {
    const plans = random.list(4, () => ({
      want: random.between(2, 10),
      times: random.between(1, 3),
      pauses: random.chance(0.5) ? random.list(30, () => random.between(0, 300)) : [],
    }));
    const ids = await caller.insertMany(
      w,
      pack,
      plans.map(({ want }) => ({ state: { w, want } })),
    );
    await Promise.all(
      ids.map(async (id, n) => {
        const { want, times, pauses } = plans[n] ?? { want: 0, times: 1, pauses: [] };
        const sent: Promise<unknown>[] = [];
        const sigs = Array.from({ length: want }, () => caller.newSig());
        const calls = sigs.flatMap((sig) => Array.from({ length: times }, () => sig));
        // At once, or one after the other, so that it parks in between.
        for (const [at, sig] of calls.entries()) {
          if (pauses[at] !== undefined) await caller.pause(pauses[at]);
          sent.push(caller.signal(w, id, "part", sig, `p${sig}`));
        }
        await Promise.all(sent);
        await expectHeard({ w, caller }, id, sigs);
      }),
    );
  },
};

/** Webhooks that race the instance they are for. The key outlives the run, so that a late double finds it ended. */
export const upserts: WorkKind = {
  name: "upsert",
  share: 2,
  size: 3,
  run: async ({ w, random, caller }) => {
    await Promise.all(
      random
        .list(3, () => random.between(2, 6))
        .map(async (want, n) => {
          const correlationKey = `upsert:${w}:${n}`;
          const sigs = Array.from({ length: want }, () => caller.newSig());
          const answers = await Promise.all(
            sigs.map((sig) =>
              caller.signalOrInsert(
                w,
                pack,
                { state: { w, want }, correlationKey, correlationScope: EVER },
                "part",
                sig,
                `u${sig}`,
              ),
            ),
          );
          const ids = new Set(answers.map(({ id }) => id));
          const [id] = ids;
          if (ids.size !== 1 || id === undefined) {
            caller.mismatches.push({
              w,
              id: id ?? 0,
              text: `one key reached the instances ${[...ids].join(", ")}`,
            });
            return;
          }
          await expectHeard({ w, caller }, id, sigs);
        }),
    );
  },
};

const EVER = ["runnable", "executing", "awaiting_signal", "awaiting_children", "done", "failed"] as const;

async function expectHeard(
  { w, caller }: Pick<Work, "w" | "caller">,
  id: number,
  sigs: readonly number[],
): Promise<void> {
  await caller.expect(w, id, (answer) => {
    if (answer.status !== "done") return false;
    const { heard } = answer.result as { heard: number[] };
    return isDone(answer, { w }) && JSON.stringify(heard.toSorted((a, b) => a - b)) === JSON.stringify(sigs);
  });
}
