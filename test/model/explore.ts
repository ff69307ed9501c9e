// Explore: every interleaving of the actors of a scenario, breadth first, so that a counterexample is a shortest one.

import { type Actor, actorOf, copyFor, newActor, Statement, type World } from "./database.js";

/** What an actor does next. One statement, or something between statements. */
export interface Step {
  /** The file under sql/ that the step abstracts, or COMMIT, or what happens without a statement. */
  does: string;
  /** Locks that it waits for. */
  waits?: (statement: Statement) => { table: "instances" | "gates"; key: string }[];
  /** Whether it has to wait for something else: an entry of a unique index that another transaction is making. */
  isHeldUp?: (statement: Statement) => boolean;
  /** Whether there is something to do; an actor that has nothing to do is idle, not stuck. */
  when?: (statement: Statement) => boolean;
  /** Runs, and says at which step the actor goes on; "end" for none. */
  run: (statement: Statement) => string;
  /** It reads nothing but what is locked: no gap between its snapshot and its run. */
  isAtomic?: boolean;
}

export type Program = Readonly<Record<string, Step>>;

export interface Scenario {
  name: string;
  world: World;
  programs: Readonly<Record<string, Program>>;
  /** Actors that may be killed at any moment: their transaction is rolled back, and they do no more. */
  mortal?: readonly string[];
  /** What must hold whenever a transaction has committed; the text of what does not. */
  always: (world: World) => string | null;
  /** What must hold when nobody has anything left to do. */
  finally?: (world: World) => string | null;
}

export interface Move {
  actor: string;
  step: string;
  does: string;
}

export interface Exploration {
  states: number;
  moves: number;
  /** States in which nothing is left to do. */
  ends: number;
  counterexample: { violation: string; trace: Move[] } | null;
}

export interface ExploreOptions {
  /** Statements run at once, without the gap between their snapshot and their run. */
  isAtomic?: boolean;
  statesMax?: number;
}

interface Visit {
  before: string | null;
  move: Move | null;
}

/** Looks at every reachable state. @throws when there are more than `statesMax` */
export function explore(scenario: Scenario, options: ExploreOptions = {}): Exploration {
  const { statesMax = 400_000 } = options;
  const first = keyOf(scenario.world);
  const visits = new Map<string, Visit>([[first, { before: null, move: null }]]);
  const open: { key: string; world: World }[] = [{ key: first, world: scenario.world }];
  const found: Exploration = { states: 1, moves: 0, ends: 0, counterexample: null };
  for (let place = 0; place < open.length; place++) {
    const at = open[place];
    if (at === undefined) break;
    // What is done with need not be kept.
    delete open[place];
    const successors = movesFrom(scenario, at.world, options);
    found.moves += successors.length;
    if (successors.length === 0) {
      found.ends++;
      const violation = stuck(scenario, at.world) ?? scenario.finally?.(at.world) ?? null;
      if (violation !== null)
        return { ...found, counterexample: { violation, trace: traceTo(visits, at.key) } };
    }
    for (const { move, world } of successors) {
      const violation = world.violation ?? scenario.always(world);
      if (violation !== null) {
        const trace = [...traceTo(visits, at.key), move];
        return { ...found, counterexample: { violation, trace } };
      }
      const key = keyOf(world);
      if (visits.has(key)) continue;
      visits.set(key, { before: at.key, move });
      open.push({ key, world });
      found.states++;
      if (found.states > statesMax) throw new Error(`${scenario.name}: more than ${statesMax} states`);
    }
  }
  return found;
}

/** Every move that some actor can make, and the world after it. */
export function movesFrom(
  scenario: Scenario,
  here: World,
  { isAtomic = false }: ExploreOptions = {},
): { move: Move; world: World }[] {
  const moves: { move: Move; world: World }[] = [];
  for (const name of Object.keys(here.actors)) {
    const actor = actorOf(here, name);
    const step = stepOf(scenario, name, actor);
    if (step === undefined) continue;
    const look = new Statement(here, name);
    if (scenario.mortal?.includes(name) === true && actor.at !== "claim") {
      const world = copyFor(here, name);
      new Statement(world, name).rollback();
      world.actors[name] = newActor("end");
      moves.push({ move: { actor: name, step: actor.at, does: "is killed" }, world });
    }
    if (actor.snapshot === null && step.when?.(look) === false) continue;
    if (!isAtomic && step.isAtomic !== true && actor.snapshot === null) {
      const world = copyFor(here, name);
      actorOf(world, name).snapshot = world.tables;
      moves.push({ move: { actor: name, step: actor.at, does: `${step.does} takes its snapshot` }, world });
      continue;
    }
    if (step.isHeldUp?.(look) === true) continue;
    if (step.waits?.(look).some(({ table, key }) => !look.isFree(table, key)) === true) continue;
    const world = copyFor(here, name);
    const mover = actorOf(world, name);
    const at = mover.at;
    mover.at = step.run(new Statement(world, name));
    mover.snapshot = null;
    moves.push({ move: { actor: name, step: at, does: step.does }, world });
  }
  return moves;
}

function stepOf(scenario: Scenario, name: string, actor: Actor): Step | undefined {
  if (actor.at === "end") return undefined;
  const step = scenario.programs[name]?.[actor.at];
  if (step === undefined) throw new Error(`${name} has no step ${actor.at}`);
  return step;
}

/** Nobody can move, and somebody waits for a lock. */
function stuck(scenario: Scenario, world: World): string | null {
  for (const name of Object.keys(world.actors)) {
    const actor = actorOf(world, name);
    const step = stepOf(scenario, name, actor);
    if (step === undefined) continue;
    const look = new Statement(world, name);
    if (actor.snapshot === null && step.when?.(look) === false) continue;
    return `deadlock: ${name} waits at ${step.does}; locks: ${JSON.stringify(world.locks)}`;
  }
  return null;
}

function traceTo(visits: ReadonlyMap<string, Visit>, end: string): Move[] {
  const trace: Move[] = [];
  for (let at: string | null = end; at !== null; ) {
    const visit: Visit | undefined = visits.get(at);
    if (visit?.move) trace.unshift(visit.move);
    at = visit?.before ?? null;
  }
  return trace;
}

/** A trace as a person reads it. */
export function tell(trace: readonly Move[]): string {
  return trace
    .map(({ actor, does }, index) => `${String(index + 1).padStart(3)}. ${actor}: ${does}`)
    .join("\n");
}

/** The step that ends a transaction. */
export function commit(then: (statement: Statement) => string): Step {
  return {
    does: "COMMIT",
    isAtomic: true,
    run: (statement) => {
      statement.commit();
      return then(statement);
    },
  };
}

const keys = new WeakMap<object, string>();

/** Equal worlds have equal keys. What two worlds share is turned into text once. */
export function keyOf(world: World): string {
  const actors = Object.keys(world.actors).map((name) => cachedText(actorOf(world, name)));
  return `${cachedText(world.tables)}|${textOf(world.locks)}|${actors.join("|")}`;
}

function cachedText(value: object): string {
  const known = keys.get(value);
  if (known !== undefined) return known;
  const text = textOf(value, cachedText);
  keys.set(value, text);
  return text;
}

function textOf(value: unknown, ofObject: (inner: object) => string = textOf): string {
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.join(",")}]`;
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([key, field]) => `${key}:${typeof field === "object" && field !== null ? ofObject(field as object) : String(field)}`).join(",")}}`;
}
