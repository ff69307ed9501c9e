// Chains: plain, slow, under exclusive keys, gates and rates, with delays and priorities; and steps that retry.

import type { InsertOptions } from "gen-durable";
import { chain, retrier, runner, type Turn } from "../machines/chain.js";
import type { Random } from "../seed.js";
import { isDone, type Work, type WorkKind } from "./work.js";

interface ChainPlan {
  hops: number;
  workMs?: number;
  turns?: Turn[];
  options?: Omit<InsertOptions, "state">;
}

async function runChains(
  { w, caller }: Work,
  plans: readonly ChainPlan[],
  machine: typeof chain = chain,
): Promise<void> {
  const rows = plans.map(({ hops, workMs = 0, turns = [], options }) => ({
    ...options,
    state: { w, hops, workMs, turns },
  }));
  const ids = await caller.insertMany(w, machine, rows);
  await Promise.all(
    ids.map((id, n) => caller.expect(w, id, (answer) => isDone(answer, { w, hops: plans[n]?.hops }))),
  );
}

const priority = (random: Random): number => random.between(-3, 3);

/** A key without a limit: exclusive. Few, so that they are contended. */
const exclusive = (random: Random): [string, number] => ["acct", random.between(1, 15)];

export const chains: WorkKind = {
  name: "chain",
  share: 12,
  size: 12,
  run: (work) =>
    runChains(
      work,
      work.random.list(12, () => ({
        hops: work.random.between(10, 40),
        options: { priority: priority(work.random), queue: work.random.pick(["main", "side", "bulk"]) },
      })),
    ),
};

/** Steps that outlive leases and nodes. */
export const slowSteps: WorkKind = {
  name: "slow",
  share: 2,
  size: 3,
  run: (work) =>
    runChains(
      work,
      work.random.list(3, () => ({
        hops: 1,
        workMs: work.random.between(500, 6_000),
        options: work.random.chance(0.5) ? {} : { concurrencyKey: ["slow", work.random.between(1, 4)] },
      })),
    ),
};

export const exclusiveKeys: WorkKind = {
  name: "key",
  share: 4,
  size: 8,
  run: (work) =>
    runChains(
      work,
      work.random.list(8, () => {
        const hops = work.random.between(2, 6);
        const turns = work.random.list(hops, (): Turn => {
          if (work.random.chance(0.6)) return {};
          return { key: work.random.chance(0.3) ? null : exclusive(work.random) };
        });
        return { hops, turns, options: { concurrencyKey: exclusive(work.random) } };
      }),
    ),
};

/** Run-ahead, with keys, gates and rates that change on the way, and transitions that do not run ahead. */
export const runAhead: WorkKind = {
  name: "ahead",
  share: 6,
  size: 10,
  run: (work) =>
    runChains(
      work,
      work.random.list(10, () => {
        const { random } = work;
        const hops = random.between(10, 40);
        const turns = random.list(hops, (): Turn => {
          if (random.chance(0.8)) return {};
          return random.pick<Turn>([
            { key: null },
            { key: "wide" },
            { key: ["gate", random.between(1, 3)] },
            { key: exclusive(random) },
            { rate: "ahead" },
            { inline: false },
            { delayMs: random.between(1, 50) },
          ]);
        });
        const options = random.pick<Omit<InsertOptions, "state">>([
          {},
          { concurrencyKey: exclusive(random) },
          { concurrencyKey: "wide" },
        ]);
        return { hops, turns: random.chance(0.5) ? turns : [], options };
      }),
      runner as unknown as typeof chain, // the same state, other steps
    ),
};

export const gates: WorkKind = {
  name: "gate",
  share: 4,
  size: 8,
  run: (work) =>
    runChains(
      work,
      work.random.list(8, () => {
        const gate = (): string | [string, number] =>
          work.random.pick<string | [string, number]>(["gate", "wide", ["gate", work.random.between(1, 3)]]);
        const hops = work.random.between(2, 6);
        const turns = work.random.list(hops, (): Turn => (work.random.chance(0.7) ? {} : { key: gate() }));
        return {
          hops,
          turns,
          workMs: work.random.between(0, 20),
          options: { concurrencyKey: gate(), queue: work.random.pick(["main", "side"]) },
        };
      }),
    ),
};

export const rates: WorkKind = {
  name: "rate",
  share: 3,
  size: 8,
  run: (work) =>
    runChains(
      work,
      work.random.list(8, () => {
        const limit = (): { rate: string | [string, number]; weight?: number } =>
          work.random.pick([
            { rate: "burst", weight: work.random.between(1, 3) },
            { rate: ["part", work.random.between(1, 4)] },
          ]);
        const hops = work.random.between(1, 4);
        const { rate, weight } = limit();
        return {
          hops,
          turns: work.random.list(hops, (): Turn => (work.random.chance(0.5) ? {} : limit())),
          options: { rateLimit: rate, ...(weight === undefined ? {} : { weight }) },
        };
      }),
    ),
};

export const timers: WorkKind = {
  name: "timer",
  share: 2,
  size: 10,
  run: (work) =>
    runChains(
      work,
      work.random.list(10, () => {
        const hops = work.random.between(1, 3);
        const delayMs = work.random.between(50, 3_000);
        return {
          hops,
          turns: work.random.list(hops, () => ({ delayMs: work.random.between(0, 800) })),
          options: {
            priority: priority(work.random),
            ...(work.random.chance(0.5) ? { delayMs } : { at: Date.now() + delayMs }),
          },
        };
      }),
    ),
};

export const retries: WorkKind = {
  name: "retry",
  share: 2,
  size: 6,
  run: async ({ w, random, caller }) => {
    const plans = random.list(6, () => ({
      times: random.between(1, 8),
      delayMs: random.pick([0, 0, 20, 200]),
    }));
    const rows = plans.map((plan) => ({
      state: { w, ...plan },
      // A retry keeps its limit, and takes its tokens again.
      ...(random.chance(0.3) ? { rateLimit: "burst" } : {}),
    }));
    const ids = await caller.insertMany(w, retrier, rows);
    await Promise.all(
      ids.map((id, n) => caller.expect(w, id, (answer) => isDone(answer, { w, tries: plans[n]?.times }))),
    );
  },
};
