// Scenarios: two to four actors over one or two instances; small enough for every interleaving, and each with the race in it
// that some fix is for.

import { instance, newActor, type Tables, type World } from "./database.js";
import type { Program, Scenario } from "./explore.js";
import type { Fix, Fixes } from "./fixes.js";
import { always, finallyHolds } from "./invariants.js";
import { canceller, deleter, orphanSweep, reaper, reconciler, retrier, sender, timer } from "./others.js";
import { type Outcome, run } from "./run.js";

export interface ScenarioMaker {
  name: string;
  make: (fixes: Fixes) => Scenario;
  /** The fixes without which it fails, and what the violation says. */
  breaksWithout: Partial<Record<Fix, RegExp>>;
  /** Tens of thousands of states: looked at by `npm run test:slow`. */
  isLarge?: boolean;
}

function scenario(
  name: string,
  tables: Partial<Tables>,
  programs: Readonly<Record<string, Program>>,
  more: Pick<Scenario, "mortal" | "finally"> = {},
): Scenario {
  const world: World = {
    tables: { instances: {}, signals: {}, gates: {}, history: {}, ...tables },
    locks: {},
    actors: Object.fromEntries(
      Object.entries(programs).map(([actor, program]) => [
        actor,
        newActor("claim" in program ? "claim" : "start"),
      ]),
    ),
    violation: null,
  };
  return { name, world, programs, always, finally: finallyHolds, ...more };
}

export const AWAITS: Record<string, Outcome> = {
  start: { kind: "await", names: ["go"], step: "woken" },
  woken: { kind: "done" },
};
export const CHAIN: Record<string, Outcome> = { start: { kind: "next", step: "end" }, end: { kind: "done" } };
export const FAMILY: Record<string, Outcome> = {
  start: { kind: "children", step: "joined", count: 1 },
  child: { kind: "done" },
  joined: { kind: "done" },
  cleanUp: { kind: "children", step: "joined", count: 1 },
};
const waitingFor = (pending: number) =>
  instance({ status: "awaiting_children", step: "joined", visit: 2, pending });
const child = (spec: Parameters<typeof instance>[0] = {}) =>
  instance({ step: "child", parent: "i1", round: 2, ...spec });

export const SCENARIOS: readonly ScenarioMaker[] = [
  {
    name: "a park and two deliveries of one signal",
    make: (fixes) =>
      scenario(
        "park and delivery",
        { instances: { i1: instance() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: AWAITS, claims: 2 }),
          client: sender({
            fixes,
            signals: [
              { target: "i1", name: "go", dedup: "d" },
              { target: "i1", name: "go", dedup: "d" },
            ],
          }),
        },
      ),
    breaksWithout: {
      recheckAtPark: /lost wake-up/,
      lockBeforeUpdate: /lost wake-up/,
      deliveryJudgesLocked: /lost wake-up/,
      dedup: /stored 2 times/,
    },
  },
  {
    name: "a redelivery after its signal was consumed",
    make: (fixes) =>
      scenario(
        "redelivery",
        { instances: { i1: instance() } },
        {
          A: run({
            node: "A",
            pick: "1",
            fixes,
            outcomes: {
              start: { kind: "await", names: ["go"], step: "woken" },
              woken: { kind: "next", step: "last" },
              last: { kind: "await", names: ["never"], step: "end" },
            },
            claims: 3,
          }),
          client: sender({
            fixes,
            signals: [
              { target: "i1", name: "go", dedup: "d" },
              { target: "i1", name: "go", dedup: "d" },
            ],
          }),
        },
      ),
    breaksWithout: { consumedStay: /stored 2 times/ },
  },
  {
    name: "a park, a delivery and its timeout",
    make: (fixes) =>
      scenario(
        "timeout",
        { instances: { i1: instance() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: AWAITS, claims: 2 }),
          client: sender({ fixes, signals: [{ target: "i1", name: "go", dedup: null }] }),
          timer: timer(),
        },
      ),
    breaksWithout: {},
  },
  {
    name: "two runs of one node, one of them paused past its lease",
    make: (fixes) =>
      scenario(
        "lease",
        { instances: { i1: instance() } },
        {
          paused: run({ node: "A", pick: "1", fixes, outcomes: CHAIN }),
          again: run({ node: "A", pick: "2", fixes, outcomes: CHAIN }),
          reaper: reaper({ fixes }),
        },
      ),
    breaksWithout: {
      fenceByPick: /under a claim that did not run it/,
      guard: /under a claim that did not run it/,
      reapUnderLock: /overwritten by the reaper/,
    },
  },
  {
    name: "two pickers and one row",
    make: (fixes) =>
      scenario(
        "pickers",
        { instances: { i1: instance() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: { start: { kind: "done" } } }),
          B: run({ node: "B", pick: "1", fixes, outcomes: { start: { kind: "done" } } }),
        },
      ),
    breaksWithout: { claimRechecks: /was not runnable/ },
  },
  {
    name: "a delivery before a valid outcome",
    make: (fixes) =>
      scenario(
        "valid outcome",
        { instances: { i1: instance({ status: "awaiting_signal", awaits: ["go"], visit: 2 }) } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: CHAIN }),
          client: canceller({ fixes, target: "i1" }),
          sender: sender({ fixes, signals: [{ target: "i1", name: "go", dedup: null }] }),
        },
      ),
    breaksWithout: { lockBeforeUpdate: /called stale/ },
  },
  {
    name: "a parent that is reclaimed while it fans out",
    make: (fixes) =>
      scenario(
        "fan-out",
        { instances: { i1: instance() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY, only: ["i1"] }),
          B: run({ node: "B", pick: "1", fixes, outcomes: FAMILY, only: ["i1"] }),
          reaper: reaper({ fixes }),
        },
      ),
    breaksWithout: { spawnWithPark: /orphans/ },
  },
  {
    name: "two siblings that end at once",
    make: (fixes) =>
      scenario(
        "siblings",
        { instances: { i1: waitingFor(2), "i1.2.1": child(), "i1.2.2": child() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1", "i1.2.2"] }),
          B: run({ node: "B", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1", "i1.2.2"] }),
        },
      ),
    breaksWithout: {},
  },
  {
    name: "a child whose node is killed as it ends",
    make: (fixes) =>
      scenario(
        "killed child",
        { instances: { i1: waitingFor(1), "i1.2.1": child() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1"] }),
          B: run({ node: "B", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1"] }),
          reaper: reaper({ fixes }),
        },
        { mortal: ["A"] },
      ),
    breaksWithout: { joinWithEnd: /waits for children of which none/ },
  },
  {
    name: "a parent whose clean-up fans out again while a child of the old round runs",
    make: (fixes) =>
      scenario(
        "rounds",
        { instances: { i1: waitingFor(1), "i1.2.1": child() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1"] }),
          B: run({ node: "B", pick: "1", fixes, outcomes: FAMILY, only: ["i1"], onCancel: "cleanUp" }),
          client: canceller({ fixes, target: "i1", onCancel: "cleanUp" }),
        },
      ),
    breaksWithout: { rounds: /fired before|fired twice/ },
  },
  {
    name: "a cancel of a family while its child ends",
    make: (fixes) =>
      scenario(
        "family",
        { instances: { i1: waitingFor(1), "i1.2.1": child() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1"] }),
          client: canceller({ fixes, target: "i1", descendants: ["i1.2.1"] }),
          other: canceller({ fixes: { ...fixes, familyInOrder: true }, target: "i1.2.1", parent: "i1" }),
        },
      ),
    breaksWithout: { familyInOrder: /deadlock/, lockParents: /deadlock/ },
  },
  {
    name: "a child that has failed is retried while its sibling ends",
    make: (fixes) =>
      scenario(
        "retry",
        {
          instances: {
            i1: waitingFor(1),
            "i1.2.1": child({ status: "failed" }),
            "i1.2.2": child(),
          },
        },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.2"] }),
          client: retrier({ fixes, target: "i1.2.1", parent: "i1" }),
          B: run({ node: "B", pick: "1", fixes, outcomes: FAMILY, only: ["i1.2.1"] }),
        },
      ),
    breaksWithout: { retryRearms: /fired before|none is left/ },
  },
  {
    name: "a sweep for orphans, and a child that is retried",
    make: (fixes) =>
      scenario(
        "orphans",
        { instances: { i1: waitingFor(1), "i1.2.1": child({ status: "failed" }), "i1.2.2": child() } },
        {
          sweep: orphanSweep({ fixes }),
          hand: deleter("i1.2.2"),
          client: retrier({ fixes, target: "i1.2.1", parent: "i1" }),
        },
        // A parent whose child was deleted by hand counts one too many, until a sweep looks.
        { finally: () => null },
      ),
    breaksWithout: { orphansLookAgain: /fired before/ },
  },
  {
    name: "a gate of one slot: two instances, a paused run and a reaper",
    make: (fixes) =>
      scenario(
        "gate",
        {
          instances: { i1: instance({ key: "gate" }), i2: instance({ key: "gate" }) },
          gates: { g: ONE_SLOT },
        },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: CHAIN, limit: "gate" }),
          B: run({ node: "B", pick: "1", fixes, outcomes: CHAIN, limit: "gate" }),
          reaper: reaper({ fixes }),
        },
      ),
    breaksWithout: {
      creditUnderGuard: /nobody held|slots of a gate|leaked/,
      admitUnderLock: /slots of a gate/,
    },
  },
  {
    name: "a gate, and a node that is killed between its commit and what follows",
    make: (fixes) =>
      scenario(
        "leak",
        { instances: { i1: instance({ key: "gate" }) }, gates: { g: ONE_SLOT } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: CHAIN, limit: "gate" }),
          reaper: reaper({ fixes }),
        },
        { mortal: ["A"] },
      ),
    breaksWithout: { creditWithCommit: /leaked/ },
  },
  {
    name: "a gate whose counter is reconciled while it is picked",
    make: (fixes) =>
      scenario(
        "reconcile",
        {
          instances: { i1: instance({ key: "gate" }), i2: instance({ key: "gate" }) },
          gates: { g: ONE_SLOT },
        },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: CHAIN, limit: "gate" }),
          B: run({ node: "B", pick: "1", fixes, outcomes: CHAIN, limit: "gate" }),
          collector: reconciler({ fixes }),
        },
      ),
    breaksWithout: { countAfterLock: /slots of a gate|leaked|nobody held/ },
  },
  {
    name: "an exclusive key with rows in two queues",
    make: (fixes) =>
      scenario(
        "exclusive",
        { instances: { i1: instance({ key: "k" }), i2: instance({ key: "k" }) } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: CHAIN, limit: "exclusive", only: ["i1"] }),
          B: run({ node: "B", pick: "1", fixes, outcomes: CHAIN, limit: "exclusive", only: ["i2"] }),
        },
      ),
    breaksWithout: { uniqueActiveKey: /two instances of one exclusive key/ },
  },
  {
    name: "a cancel and the last step",
    make: (fixes) =>
      scenario(
        "cancel",
        { instances: { i1: instance() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: { start: { kind: "done" } } }),
          client: canceller({ fixes, target: "i1" }),
          reaper: reaper({ fixes }),
        },
      ),
    breaksWithout: {
      cancelUnderLock: /was promised its cancellation|overwritten by a cancel/,
      flushSeesCancel: /was promised its cancellation/,
    },
  },
  {
    name: "everybody at once: two nodes, a signal, a timeout, a cancel, a reaper",
    isLarge: true,
    make: (fixes) =>
      scenario(
        "everybody",
        { instances: { i1: instance() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: AWAITS, claims: 2 }),
          B: run({ node: "B", pick: "1", fixes, outcomes: AWAITS }),
          client: sender({ fixes, signals: [{ target: "i1", name: "go", dedup: null }] }),
          other: canceller({ fixes, target: "i1" }),
          timer: timer(),
          reaper: reaper({ fixes }),
        },
      ),
    breaksWithout: {},
  },
  {
    name: "a family at once: two nodes, a cancel, a retry, a sweep for orphans",
    isLarge: true,
    make: (fixes) =>
      scenario(
        "family at once",
        { instances: { i1: waitingFor(1), "i1.2.1": child({ status: "failed" }), "i1.2.2": child() } },
        {
          A: run({ node: "A", pick: "1", fixes, outcomes: FAMILY }),
          B: run({ node: "B", pick: "1", fixes, outcomes: FAMILY }),
          client: retrier({ fixes, target: "i1.2.1", parent: "i1" }),
          other: canceller({ fixes, target: "i1.2.2", parent: "i1" }),
          sweep: orphanSweep({ fixes }),
          reaper: reaper({ fixes }),
        },
      ),
    breaksWithout: {},
  },
];

const ONE_SLOT = { capacity: 1, available: 1 };
