// The model's Postgres: records under keys, row locks, and READ COMMITTED as the engine's statements rely on it.
// M1  A statement reads the snapshot that it took when it began, and its own transaction's writes.
// M2  A lock is taken on the newest version, which may be younger than the snapshot. Only a locked record, or a new one, is written.
// M3  What a transaction writes is seen by others when it commits, all at once; then its locks are gone.
// M4  A world is never changed once somebody else may hold it: a move gets a copy that shares what it leaves alone.
// Between the snapshot of a statement and its run others may commit: that gap is where races live.

export interface Instance {
  status: "runnable" | "executing" | "awaiting_signal" | "awaiting_children" | "done" | "failed";
  step: string;
  visit: number;
  attempt: number;
  /** `locked_by`. */
  owner: string | null;
  /** The claim as it is, also where the model's `locked_by` is made to forget it. No statement reads it. */
  claim: string | null;
  awaits: string[];
  seen: string[];
  wokenBy: "signal" | "timeout" | "children" | null;
  parent: string | null;
  round: number | null;
  pending: number;
  cancelRequested: boolean;
  cancelled: boolean;
  /** Its concurrency key, and whether it holds a slot of the gate. */
  key: string | null;
  slot: boolean;
}

export interface Signal {
  target: string;
  name: string;
  dedup: string | null;
  consumed: boolean;
}

/** A gate's counter. */
export interface Gate {
  capacity: number;
  available: number;
}

export interface Tables {
  instances: Record<string, Instance>;
  signals: Record<string, Signal>;
  gates: Record<string, Gate>;
  /** What has happened, for the properties alone: no statement reads it. */
  history: Record<string, number>;
}

export type Table = keyof Tables;

/** Where an actor stands, and what it remembers. */
export interface Actor {
  at: string;
  snapshot: Tables | null;
  writes: { [T in Table]: Record<string, Tables[T][string] | null> };
  memory: Record<string, string | number | boolean | null | string[]>;
}

export interface World {
  tables: Tables;
  /** `instances/i1` is held by the actor of this name. */
  locks: Record<string, string>;
  actors: Record<string, Actor>;
  violation: string | null;
}

export function newActor(at: string): Actor {
  return { at, snapshot: null, writes: noWrites(), memory: {} };
}

export function instance(spec: Partial<Instance> = {}): Instance {
  return {
    status: "runnable",
    step: "start",
    visit: 1,
    attempt: 0,
    owner: null,
    claim: null,
    awaits: [],
    seen: [],
    wokenBy: null,
    parent: null,
    round: null,
    pending: 0,
    cancelRequested: false,
    cancelled: false,
    key: null,
    slot: false,
    ...spec,
  };
}

export function actorOf(world: World, name: string): Actor {
  const actor = world.actors[name];
  if (actor === undefined) throw new Error(`no actor ${name}`);
  return actor;
}

/** M4: a copy in which one actor may move. */
export function copyFor(world: World, name: string): World {
  const { instances, signals, gates, history } = actorOf(world, name).writes;
  const actor: Actor = {
    ...actorOf(world, name),
    memory: { ...actorOf(world, name).memory },
    writes: {
      instances: { ...instances },
      signals: { ...signals },
      gates: { ...gates },
      history: { ...history },
    },
  };
  return { ...world, locks: { ...world.locks }, actors: { ...world.actors, [name]: actor } };
}

function written<R>(
  rows: Readonly<Record<string, R>>,
  writes: Readonly<Record<string, R | null>>,
): Record<string, R> {
  if (Object.keys(writes).length === 0) return rows;
  const result: Record<string, R> = { ...rows };
  for (const [key, record] of Object.entries(writes)) {
    if (record === null) delete result[key];
    else result[key] = record;
  }
  return result;
}

function noWrites(): Actor["writes"] {
  return { instances: {}, signals: {}, gates: {}, history: {} };
}

/** One statement of one actor, while it runs. */
export class Statement {
  readonly #world: World;
  readonly #name: string;
  readonly #actor: Actor;

  constructor(world: World, name: string) {
    this.#world = world;
    this.#name = name;
    this.#actor = actorOf(world, name);
  }

  get memory(): Actor["memory"] {
    return this.#actor.memory;
  }

  /** M1: the records that the statement sees, in the order of their keys. */
  seen<T extends Table>(table: T): [string, Tables[T][string]][] {
    const base = (this.#actor.snapshot ?? this.#world.tables)[table] as Record<string, Tables[T][string]>;
    const own = this.#actor.writes[table] as Record<string, Tables[T][string] | null>;
    const merged: Record<string, Tables[T][string] | null> = { ...base, ...own };
    return Object.keys(merged)
      .sort()
      .flatMap((key) => {
        const record = merged[key];
        return record === null || record === undefined ? [] : [[key, record] as [string, Tables[T][string]]];
      });
  }

  /** M1: one record as the statement sees it. */
  see<T extends Table>(table: T, key: string): Tables[T][string] | undefined {
    return this.seen(table).find(([found]) => found === key)?.[1];
  }

  /** M2: the newest version, also one that the snapshot does not hold. */
  newest<T extends Table>(table: T, key: string): Tables[T][string] | undefined {
    const own = this.#actor.writes[table] as Record<string, Tables[T][string] | null>;
    if (Object.hasOwn(own, key)) return own[key] ?? undefined;
    return (this.#world.tables[table] as Record<string, Tables[T][string]>)[key];
  }

  isFree(table: Table, key: string): boolean {
    const holder = this.#world.locks[`${table}/${key}`];
    return holder === undefined || holder === this.#name;
  }

  /** Takes a lock that is free. False: somebody else has it, and the statement skips the record. */
  lock(table: Table, key: string): boolean {
    if (!this.isFree(table, key)) return false;
    this.#world.locks[`${table}/${key}`] = this.#name;
    return true;
  }

  /** Writes a record that is locked, or a new one; null deletes it. */
  write<T extends Table>(table: T, key: string, record: Tables[T][string] | null): void {
    const isNew = this.newest(table, key) === undefined;
    if (table !== "history" && !isNew && this.#world.locks[`${table}/${key}`] !== this.#name)
      throw new Error(`${this.#name} writes ${table}/${key} without its lock`);
    (this.#actor.writes[table] as Record<string, Tables[T][string] | null>)[key] = record;
    if (table !== "history") this.#world.locks[`${table}/${key}`] = this.#name;
  }

  /** Changes some fields of a locked instance. */
  change(key: string, fields: Partial<Instance>): void {
    const found = this.newest("instances", key);
    if (found !== undefined) this.write("instances", key, { ...found, ...fields });
  }

  /** Whether an actor other than this one has written, and not committed, what the test accepts. */
  isBeingWritten(accepts: (record: Instance) => boolean): boolean {
    return Object.entries(this.#world.actors).some(
      ([name, actor]) =>
        name !== this.#name &&
        Object.values(actor.writes.instances).some((record) => record !== null && accepts(record)),
    );
  }

  /** Counts something that has happened, once this transaction commits. */
  note(fact: string): number {
    const count = (this.newest("history", fact) ?? 0) + 1;
    this.write("history", fact, count);
    return count;
  }

  violate(text: string): void {
    this.#world.violation ??= text;
  }

  /** M3. */
  commit(): void {
    const { writes } = this.#actor;
    const { instances, signals, gates, history } = this.#world.tables;
    this.#world.tables = {
      instances: written(instances, writes.instances),
      signals: written(signals, writes.signals),
      gates: written(gates, writes.gates),
      history: written(history, writes.history),
    };
    this.#forget();
  }

  rollback(): void {
    this.#forget();
  }

  #forget(): void {
    this.#actor.writes = noWrites();
    for (const [key, holder] of Object.entries(this.#world.locks))
      if (holder === this.#name) delete this.#world.locks[key];
  }
}
