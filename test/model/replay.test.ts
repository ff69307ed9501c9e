// Replay: random walks through the model, made again by the production statements on a real Postgres, one statement at a time. Each
// actor must stand before the very statement that the model's step names, and what is committed must be the same after each.

import { afterEach, beforeAll, expect, test } from "@jest/globals";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { insertExecuting, insertRow } from "../support/rows.js";
import { type Random, seededRandom } from "../support/seed.js";
import type { World } from "./database.js";
import { type Move, movesFrom, type Scenario, tell } from "./explore.js";
import { ALL_FIXES } from "./fixes.js";
import { Gate, realRun, realSender, realTimer } from "./reality.js";
import { AWAITS, SCENARIOS } from "./scenarios.js";

const WALKS = Number(process.env.GEN_DURABLE_TEST_RUNS ?? 1) * 4;

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterEach(() => database.query("TRUNCATE gen_durable, signals CASCADE"));

type Ids = Readonly<Record<string, number>>;
type Actors = (ids: Ids) => Record<string, (gate: Gate) => Promise<() => void> | (() => void)>;

const A = { node: "A", pick: "1" };
const go = (ids: Ids, dedup: string | null) => ({ target: ids.i1 ?? 0, name: "go", dedup });

/** The scenarios whose actors exist in reality.ts. */
const REAL: Record<string, Actors> = {
  "a park and two deliveries of one signal": (ids) => ({
    A: (gate) => realRun(database, gate, { ...A, outcomes: AWAITS, claims: 2 }),
    client: (gate) => realSender(database, gate, [go(ids, "d"), go(ids, "d")]),
  }),
  "a park, a delivery and its timeout": (ids) => ({
    A: (gate) => realRun(database, gate, { ...A, outcomes: AWAITS, claims: 2 }),
    client: (gate) => realSender(database, gate, [go(ids, null)]),
    timer: (gate) => realTimer(database, gate),
  }),
};

test.each(Object.keys(REAL))("the statements do what the model does: %s", async (name) => {
  const maker = SCENARIOS.find((one) => one.name === name);
  const actors = REAL[name];
  if (maker === undefined || actors === undefined) throw new Error(`no scenario "${name}"`);
  const random = seededRandom(`replay, ${name}`);
  for (let walk = 0; walk < WALKS; walk++) {
    await database.query("TRUNCATE gen_durable, signals CASCADE");
    await replay(maker.make(ALL_FIXES), actors, random);
  }
});

async function replay(scenario: Scenario, actors: Actors, random: Random): Promise<void> {
  const ids = await insertWorld(scenario.world);
  const gates = new Map<string, Gate>();
  for (const [name, begin] of Object.entries(actors(ids))) {
    const gate = new Gate();
    const start = await begin(gate);
    start();
    gates.set(name, gate);
  }
  let world = scenario.world;
  const trace: Move[] = [];
  for (;;) {
    const moves = movesFrom(scenario, world, { isAtomic: true });
    // What the claim has said is loaded at once, as the production code does.
    const forced = moves.find(({ move }) => move.step === "inbox");
    const chosen = forced ?? moves[Math.floor(random.between(0, moves.length))];
    if (chosen === undefined) break;
    world = chosen.world;
    trace.push(chosen.move);
    const { actor, does } = chosen.move;
    if (forced === undefined) {
      const gate = gates.get(actor);
      const expected = does.replace(/ \(.*\)$/, "").replace(/^.*\//, "");
      expect(`${await gate?.stands()} in\n${tell(trace)}`).toBe(`${expected} in\n${tell(trace)}`);
      await gate?.step();
    }
    expect({ trace: tell(trace), ...(await readWorld(ids)) }).toEqual({
      trace: tell(trace),
      ...abstract(world),
    });
  }
  // Whoever waits for work that will not come is let go with the database's truncation.
}

async function insertWorld(world: World): Promise<Ids> {
  const ids: Record<string, number> = {};
  for (const [key, row] of Object.entries(world.tables.instances)) {
    const spec = {
      fsm: row.parent === null ? "plain" : "kid",
      step: row.step,
      status: row.status,
      visit: row.visit,
      awaits: row.awaits,
      children_pending: row.pending,
      parent_id: row.parent === null ? null : (ids[row.parent] ?? 0),
      parent_visit: row.round,
      ...(row.status === "awaiting_signal" ? { deadlineInMs: 3_600_000 } : {}),
    };
    ids[key] =
      row.status === "executing"
        ? await insertExecuting(database, "x/1", spec)
        : await insertRow(database, spec);
  }
  return ids;
}

/** What is committed, as far as the model knows it. */
async function readWorld(ids: Ids) {
  const rows = await database.query("SELECT * FROM gen_durable ORDER BY id");
  const signals = await database.query("SELECT name, dedup_key, consumed_at FROM signals ORDER BY id");
  const keyOf = new Map(Object.entries(ids).map(([key, id]) => [id, key]));
  return {
    instances: rows.map((row) => ({
      key: keyOf.get(row.id as number),
      status: row.status,
      step: row.step,
      visit: row.visit,
      attempt: row.attempt,
      owner: row.locked_by,
      awaits: row.awaits,
      wokenBy: row.wake_reason,
      pending: row.children_pending,
      cancelRequested: row.cancel_requested,
    })),
    signals: signals.map((row) => ({
      name: row.name,
      dedup: row.dedup_key,
      consumed: row.consumed_at !== null,
    })),
  };
}

function abstract(world: World) {
  return {
    instances: Object.entries(world.tables.instances).map(
      ([key, { status, step, visit, attempt, owner, awaits, wokenBy, pending, cancelRequested }]) => ({
        key,
        status,
        step,
        visit,
        attempt,
        owner,
        awaits,
        wokenBy,
        pending,
        cancelRequested,
      }),
    ),
    signals: Object.values(world.tables.signals).map(({ name, dedup, consumed }) => ({
      name,
      dedup,
      consumed,
    })),
  };
}
