// Reality: the actors of a scenario as the production code over real connections, each held before every statement that the model
// has a step for. Whoever drives them lets one statement run at a time, and compares what is committed.

import { claimRunnable } from "#coordinator/claim.js";
import { fireTimeouts } from "#coordinator/deadlines.js";
import { type Client, createClient } from "#core/client/client.js";
import type { Connection } from "#core/database/connection.js";
import type { Decision } from "#core/protocol/outcome.js";
import { flush } from "#flusher/flush.js";
import { statements } from "../interleavings/sides.js";
import type { TestDatabase } from "../support/database.js";
import {
  awaits,
  children,
  done,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  retry,
  stop,
} from "../support/outcomes.js";
import type { Outcome } from "./run.js";

/** Statements at which the real actors are held: those that the model has steps for. */
const HELD =
  /^(claim_runnable|lock_batch|insert_children|apply_outcomes|consume_signals|join_parents|lock_expired|return_expired|fire_timeouts|deliver_signals|lock_family|cancel_instances|COMMIT)$/;
const LATER_MS = 2 * 3_600_000;

/** Where one actor stands: before a statement, or at its end. */
export class Gate {
  #at: string | undefined;
  #go: (() => void) | undefined;
  #arrived: (() => void) | undefined;
  #failure: unknown;

  /** Called by the actor's session, before each statement. */
  pass(name: string): Promise<void> {
    if (!HELD.test(name)) return Promise.resolve();
    return new Promise((go) => {
      this.#at = name;
      this.#go = go;
      this.#arrived?.();
    });
  }

  run(deed: () => Promise<void>): void {
    deed().then(
      () => {
        this.#at = "end";
        this.#arrived?.();
      },
      (error) => {
        this.#failure = error;
        this.#at = "end";
        this.#arrived?.();
      },
    );
  }

  /** Where the actor stands, once it stands. @throws what its deed has thrown */
  async stands(): Promise<string> {
    if (this.#at === undefined)
      await new Promise<void>((arrived) => {
        this.#arrived = arrived;
      });
    this.#arrived = undefined;
    if (this.#failure !== undefined) throw this.#failure;
    return this.#at ?? "end";
  }

  /** Lets the one statement run, and waits until the actor stands again. */
  async step(): Promise<string> {
    const go = this.#go;
    this.#at = undefined;
    this.#go = undefined;
    go?.();
    return this.stands();
  }
}

/** A connection whose statements pass the gate. */
function gated(connection: Connection, gate: Gate): Connection {
  const run = connection.run.bind(connection);
  const command = connection.command.bind(connection);
  connection.run = async (statement, values) => {
    await gate.pass(plainName(statement.name));
    return run(statement, values);
  };
  connection.command = async (text) => {
    await gate.pass(text);
    return command(text);
  };
  return connection;
}

/** A batch that is done as a whole is written by a statement of its own; to the model it is the same step. */
function plainName(name: string): string {
  return name.replace(/_[0-9a-f]{12}$/, "").replace(/apply_(done|next|inline)/, "apply_outcomes");
}

interface Query {
  text: string;
  name?: string;
}

/** A client whose statements pass the gate. */
function gatedClient(database: TestDatabase, gate: Gate): Client {
  const nameOf = ({ name, text }: Query): string => (name === undefined ? text : plainName(name));
  const pool = {
    query: async (query: Query) => {
      await gate.pass(nameOf(query));
      return database.pool.query(query);
    },
    connect: async () => {
      const session = await database.pool.connect();
      return {
        query: async (query: Query) => {
          await gate.pass(nameOf(query));
          return session.query(query);
        },
        on: session.on.bind(session),
        off: session.off.bind(session),
        release: (lost?: boolean) => session.release(lost),
      };
    },
  };
  return createClient({ pool, prepare: true, poke: "none" } as unknown as Parameters<typeof createClient>[0]); // what it asks of a pool
}

export interface RealRun {
  node: string;
  pick: string;
  outcomes: Readonly<Record<string, Outcome>>;
  claims: number;
  kinds?: readonly string[];
}

/** One claim after the other, as the model's run. It is begun again by the driver while nothing is to be claimed. */
export async function realRun(database: TestDatabase, gate: Gate, options: RealRun): Promise<() => void> {
  const picker = gated(await database.connection(), gate);
  const flusher = gated(await flusherConnection(database), gate);
  return () =>
    gate.run(async () => {
      for (let claims = 0; claims < options.claims; ) {
        const { rows } = await claimRunnable(picker, statements, {
          queue: "default",
          claim: `${options.node}/${options.pick}${claims}`,
          rowsMax: 1,
          leaseTtlMs: 60_000,
          known: {
            names: [...(options.kinds ?? ["plain"])],
            versions: (options.kinds ?? ["plain"]).map(() => 1),
          },
          places: [],
        });
        const [row] = rows;
        if (row === undefined) continue;
        claims++;
        const inbox = JSON.parse(row.inbox ?? "[]") as { id: number; name: string }[];
        const awaited = inbox.filter(({ name }) => row.awaits.includes(name)).map(({ id }) => id);
        const outcome = outcomeOf(row.id, decisionOf(options.outcomes[row.step]), {
          claim: row.claim,
          visit: row.visit,
          attempt: row.attempt,
          step: row.step,
          parentId: row.parentId,
          parentVisit: row.parentVisit,
          awaited,
          shown: [...new Set([...row.awaitSeen, ...awaited])],
        });
        const { deferred } = await flush(flusher, [outcome], flushEnv());
        if (deferred.length > 0) throw new Error("an outcome was put off where the model waits for no lock");
      }
    });
}

export async function realTimer(database: TestDatabase, gate: Gate): Promise<() => void> {
  const connection = gated(await database.connection(), gate);
  return () =>
    gate.run(async () => {
      await fireTimeouts(connection, statements, { asOf: new Date(Date.now() + LATER_MS) });
    });
}

export function realSender(
  database: TestDatabase,
  gate: Gate,
  signals: readonly { target: number; name: string; dedup: string | null }[],
): () => void {
  const client = gatedClient(database, gate);
  return () =>
    gate.run(async () => {
      for (const { target, name, dedup } of signals)
        await client.signal(target, name, null, dedup === null ? {} : { dedupKey: dedup });
    });
}

function decisionOf(outcome: Outcome | undefined): Decision {
  switch (outcome?.kind) {
    case "next":
      return next(outcome.step);
    case "retry":
      return retry();
    case "await":
      return { ...awaits(outcome.names, 3_600_000), step: outcome.step } as Decision;
    case "children":
      return {
        ...children(Array.from({ length: outcome.count }, () => ({ step: "child" }))),
        step: outcome.step,
      } as Decision;
    case "stop":
      return stop("over");
    default:
      return done();
  }
}
