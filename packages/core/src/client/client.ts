// Client: how a program creates instances, talks to them and waits for them. Runs in any process; a node is not needed.

import { type FsmDefinition, isDefinition } from "../definition/definition.js";
import { encodeInsert } from "../definition/insert.js";
import type { InsertOptions, InsertSettings } from "../definition/insertOptions.js";
import { checkInteger, checkOptions } from "../definition/options.js";
import { UsageError } from "../errors.js";
import { isPlainObject } from "../json.js";
import { checkName, describe } from "../name.js";
import type { ChildInsert } from "../protocol/outcome.js";
import { readFsm } from "./catalogue.js";
import { type InsertResult, type InsertTarget, insertRows } from "./insert.js";
import { type FindDatabase, locateDatabase } from "./locate.js";
import { type CheckedOptions, type ClientOptions, checkClientOptions } from "./options.js";
import { Poker } from "./poker.js";
import { Session, type Tx } from "./session.js";

/** What every writing call takes besides its own options. */
export interface CallOptions {
  /** The caller's transaction: anything with `query(text, values): Promise<{ rows }>`. What is written commits with it. */
  tx?: Tx | undefined;
  /** False: nodes are not told of the new work and find it by their next poll. */
  poke?: boolean | undefined;
}

/** Options may be left out where every field of the state has a default. */
type InsertArguments<Input> = {} extends Input
  ? [options?: InsertOptions<Input> & CallOptions]
  : [options: InsertOptions<Input> & CallOptions];

export interface NamedInsertOptions extends InsertSettings, CallOptions {
  /** A JSON object; the node checks it by the machine's schema when the first step runs. */
  state?: Record<string, unknown>;
  /** Absent: the newest that a node has registered. */
  version?: number;
}

/** What the surroundings add to a client; the published package fills it in. */
export interface ClientSeams {
  /** Where a database runs when neither options nor environment say. */
  findDatabase?: FindDatabase;
  env?: Readonly<Record<string, string | undefined>>;
}

export class Client {
  readonly #options: CheckedOptions;
  readonly #session: Session;
  readonly #poker: Poker;

  constructor(options: ClientOptions = {}, seams: ClientSeams = {}) {
    const env = seams.env ?? process.env;
    this.#options = checkClientOptions(options, env);
    const { url, pool, schema, prepare, poke } = this.#options;
    this.#session = new Session({
      schema,
      prepare,
      pool,
      locate: async () => (url === undefined ? locateDatabase(env, seams.findDatabase) : { url }),
    });
    this.#poker = new Poker(this.#session, poke);
  }

  /**
   * Creates an instance. One statement. @throws UsageError before anything is written: an unknown option, a state that
   * the schema refuses or JSON cannot hold, a key of more than 512 bytes, a delay that is none.
   */
  async insert<Input, Result, Signals>(
    fsm: FsmDefinition<Input, Result, Signals>,
    ...[options]: InsertArguments<Input>
  ): Promise<InsertResult> {
    const { rest, call } = splitOptions(options);
    const row = encodeInsert(runtimeOf(fsm), rest, this.#limits());
    return this.#insertOne(row, call);
  }

  /**
   * Creates any number of instances, 2,000 a statement; answers one result a row, in order. Everything is checked before
   * the first statement. Without `tx` every statement commits by itself.
   */
  async insertMany<Input, Result, Signals>(
    fsm: FsmDefinition<Input, Result, Signals>,
    rows: readonly InsertOptions<Input>[],
    options?: CallOptions,
  ): Promise<InsertResult[]> {
    const runtime = runtimeOf(fsm);
    if (!Array.isArray(rows))
      throw new UsageError("INVALID_OPTION", `rows: expected an array, found ${describe(rows)}`, {
        path: "rows",
      });
    const limits = this.#limits();
    const { rest, call } = splitOptions(options);
    checkOptions(rest, [], { code: "INVALID_OPTION", path: "options" });
    const target = this.#target(call);
    const encoded = rows.map((row: unknown, index) => encodeInsert(runtime, row, limits, `rows[${index}]`));
    return insertRows(encoded, target);
  }

  /** Creates an instance of a machine that nodes have registered, without its code. @throws UsageError UNKNOWN_FSM */
  async insertByName(name: string, options: NamedInsertOptions = {}): Promise<InsertResult> {
    const { rest, call } = splitOptions(options);
    const { version, ...settings } = (isPlainObject(rest) ? rest : {}) as NamedInsertOptions;
    const wanted =
      version === undefined ? undefined : checkInteger(version, { code: "INVALID_OPTION", path: "version" });
    const querier = call.tx === undefined ? this.#session : this.#session.within(call.tx);
    const runtime = await readFsm(querier, checkName(name, "fsm"), wanted);
    return this.#insertOne(encodeInsert(runtime, settings, this.#limits()), call);
  }

  /** Ends what the client has opened; a pool that it was given stays open. */
  async close(): Promise<void> {
    await this.#poker.close();
    await this.#session.close();
  }

  async #insertOne(row: ChildInsert, call: CallOptions): Promise<InsertResult> {
    const [result] = await insertRows([row], this.#target(call));
    return result as InsertResult; // one row, one result
  }

  #target({ tx, poke = true }: CallOptions): InsertTarget {
    const querier = tx === undefined ? undefined : this.#session.within(tx);
    return { session: this.#session, poker: this.#poker, querier, poke };
  }

  #limits(): { maxPayloadBytes: number; rateBursts: null } {
    return { maxPayloadBytes: this.#options.maxPayloadBytes, rateBursts: null };
  }
}

/** Makes a client. It connects at its first call. @throws UsageError INVALID_OPTION */
export function createClient(options: ClientOptions = {}, seams: ClientSeams = {}): Client {
  return new Client(options, seams);
}

function runtimeOf(fsm: unknown): FsmDefinition["runtime"] {
  if (isDefinition(fsm)) return fsm.runtime;
  throw new UsageError(
    "UNKNOWN_FSM",
    `fsm: expected what defineFsm or defineJob returned, found ${describe(fsm)}${typeof fsm === "string" ? "; by name: insertByName" : ""}`,
    { path: "fsm" },
  );
}

/** Takes the call's own options off the row's. */
function splitOptions(options: unknown): { rest: unknown; call: CallOptions } {
  if (!isPlainObject(options)) return { rest: options, call: {} };
  const { tx, poke, ...rest } = options;
  if (poke !== undefined && typeof poke !== "boolean")
    throw new UsageError("INVALID_OPTION", `poke: expected true or false, found ${describe(poke)}`, {
      path: "poke",
    });
  return { rest, call: { tx: tx as Tx | undefined, poke } }; // `tx` is checked where it is used
}
