// Client: how a program creates instances, talks to them and waits for them. Runs in any process; a node is not needed.

import type { FsmDefinition } from "../definition/definition.js";
import { encodeInsert } from "../definition/insert.js";
import type { InsertOptions } from "../definition/insertOptions.js";
import { checkBoolean, checkInteger, checkOptions } from "../definition/options.js";
import { UsageError } from "../errors.js";
import { storableText } from "../errorText.js";
import { checkName, describe } from "../name.js";
import { isPlainObject } from "../plain.js";
import type { ChildInsert } from "../protocol/outcome.js";
import {
  type AnyFsm,
  type BufferedArguments,
  type CallOptions,
  type InsertArguments,
  type NamedInsertOptions,
  runtimeOf,
  splitOptions,
} from "./call.js";
import { readFsm } from "./catalogue.js";
import { type CancelAnswer, cancelInstance, type RetryResult, retryInstance } from "./control.js";
import { type InsertResult, insertRows } from "./insert.js";

import { completeBatcher, type InsertBatcher, InsertBuffer, type InsertFlush } from "./insertBuffer.js";
import { type FindDatabase, locateDatabase, mannersOf } from "./locate.js";

import { type CheckedOptions, type ClientOptions, checkClientOptions } from "./options.js";
import { Poker } from "./poker.js";
import { type Querier, Session } from "./session.js";
import {
  checkId,
  checkTarget,
  deliverSignals,
  encodeRequest,
  encodeSignal,
  type SignalRequest,
  type SignalResult,
  type SignalSettings,
  type SignalTarget,
  signalResult,
} from "./signal.js";
import { type SignalOrInsertResult, signalOrInsert } from "./signalOrInsert.js";
import { arrayText, readId } from "./text.js";
import {
  type InstanceDetails,
  type InstancePage,
  type ListFilter,
  type ListPage,
  listInstances,
  readInstance,
} from "./view.js";
import { Waiters } from "./wait.js";
import { answerOf, checkWait, type WaitAnswer, type WaitOptions } from "./waitAnswer.js";

/** Bytes of a cancel's reason; more is cut. */
const REASON_BYTES_MAX = 2_048;

/** What the surroundings add to a client; the published package fills it in. */
export interface ClientSeams {
  /** Where a database runs when neither options nor environment say. */
  findDatabase?: FindDatabase;
  /** How inserts are buffered when the options do not say. */
  findBatcher?: () => Promise<InsertBatcher | false | undefined>;
  env?: Readonly<Record<string, string | undefined>>;
}

export interface SignalOptions extends SignalSettings, CallOptions {
  /** The machine of the target: its schema of the signal checks the payload. */
  fsm?: AnyFsm | undefined;
}

export interface CancelOptions {
  /** End it now, without its clean-up step and without waiting for a step that runs; what that step does comes too late. */
  force?: boolean;
  /** Its descendants as well. */
  cascade?: boolean;
}

export class Client {
  readonly #options: CheckedOptions;
  readonly #session: Session;
  readonly #poker: Poker;
  readonly #waiters: Waiters;
  readonly #findBatcher: ClientSeams["findBatcher"];
  #buffering: Promise<InsertBuffer> | undefined;

  constructor(options: ClientOptions = {}, seams: ClientSeams = {}) {
    const env = seams.env ?? process.env;
    this.#options = checkClientOptions(options, env);
    const { url, pool, schema, prepare, ssl, poke, tickMs } = this.#options;
    this.#session = new Session({
      schema,
      prepare,
      pool,
      locate: async () => ({
        ...mannersOf(env),
        ...(url === undefined ? await locateDatabase(env, seams.findDatabase) : { url }),
        ...(ssl === undefined ? {} : { ssl }),
      }),
    });
    this.#poker = new Poker(this.#session, poke);
    this.#waiters = new Waiters(this.#session, tickMs);
    this.#findBatcher = seams.findBatcher;
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
    return this.#insertOne(encodeInsert(runtimeOf(fsm), rest, this.#limits), call);
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
    const call = callOf(options);
    const encoded = checkArray(rows, "rows").map((row, index) =>
      encodeInsert(runtime, row, this.#limits, `rows[${index}]`),
    );
    return insertRows(encoded, this.#target(call));
  }

  /**
   * Creates an instance without waiting for it, and without its id: with `insertBatcher` rows are written together some
   * milliseconds later, and until then are lost with the process; without it, or when too many wait, the row is there when the
   * call returns. A duplicate is dropped; `flush` counts it. `close` writes what waits. @throws as `insert` does, before the row
   * is taken; what goes wrong later is told by `flush`
   */
  async insertAsync<Input, Result, Signals>(
    fsm: FsmDefinition<Input, Result, Signals>,
    ...[options]: BufferedArguments<Input>
  ): Promise<void> {
    const row = encodeInsert(runtimeOf(fsm), options, this.#limits);
    await (await this.#buffer()).add(row);
  }

  /**
   * Writes what `insertAsync` has taken, and answers what became of it since the last flush. @throws TransientError when the
   * database does not answer: the rows still wait, and are tried again by themselves. INSERTS_LOST when rows were refused for good
   */
  async flush(): Promise<InsertFlush> {
    return (await this.#buffer()).flush();
  }

  /** Creates an instance of a machine that nodes have registered, without its code. @throws UsageError UNKNOWN_FSM */
  async insertByName(name: string, options: NamedInsertOptions = {}): Promise<InsertResult> {
    const { rest, call } = splitOptions(options);
    const { version, ...settings } = isPlainObject(rest) ? rest : { version: undefined };
    const wanted =
      version === undefined ? undefined : checkInteger(version, { code: "INVALID_OPTION", path: "version" });
    const runtime = await readFsm(this.#querier(call), checkName(name, "fsm"), wanted);
    return this.#insertOne(encodeInsert(runtime, settings, this.#limits), call);
  }

  /**
   * Sends a signal to a live instance, by its id (a number) or its correlation key (a string). One statement; nothing is
   * stored without a live target. With `fsm` the payload is typed and checked by its schema.
   */
  signal<Input, Result, Signals, Name extends keyof Signals & string>(
    target: SignalTarget,
    name: Name,
    payload: Signals[Name],
    options: SignalOptions & { fsm: FsmDefinition<Input, Result, Signals> },
  ): Promise<SignalResult>;
  signal(
    target: SignalTarget,
    name: string,
    payload?: unknown,
    options?: SignalOptions & { fsm?: undefined },
  ): Promise<SignalResult>;
  async signal(
    target: SignalTarget,
    name: string,
    payload?: unknown,
    options: SignalOptions = {},
  ): Promise<SignalResult> {
    const { call, dedupKey, fsm } = signalOptionsOf(options);
    const signal = encodeSignal({ target, name, payload, dedupKey }, { ...this.#limits, fsm, path: "" });
    const [delivered] = await deliverSignals([signal], this.#delivery(call));
    return signalResult(delivered);
  }

  /** Sends any number of signals, 2,000 a statement; answers one result each, in order. All are checked first. */
  async signalMany(signals: readonly SignalRequest[], options?: CallOptions): Promise<SignalResult[]> {
    const call = callOf(options);
    const encoded = checkArray(signals, "signals").map((signal, index) =>
      encodeRequest(signal, { ...this.#limits, fsm: null, path: `signals[${index}]` }),
    );
    return (await deliverSignals(encoded, this.#delivery(call))).map(signalResult);
  }

  /**
   * Sends a signal to the instance that occupies `options.correlationKey`, or creates it with the signal in its inbox. A
   * message that comes before its instance is not lost, whatever it races.
   */
  async signalOrInsert<Input, Result, Signals>(
    fsm: FsmDefinition<Input, Result, Signals>,
    options: InsertOptions<Input> & CallOptions & { correlationKey: string },
    name: string,
    payload?: unknown,
    settings: SignalSettings = {},
  ): Promise<SignalOrInsertResult> {
    const runtime = runtimeOf(fsm);
    const { rest, call } = splitOptions(options);
    const row = encodeInsert(runtime, rest, this.#limits);
    if (row.correlationKey === null || !row.correlationScope.includes("runnable")) {
      throw new UsageError(
        "INVALID_OPTION",
        "correlationKey: signalOrInsert needs a key whose scope holds a runnable instance",
        { path: "correlationKey" },
      );
    }
    const { dedupKey } = signalOptionsOf(settings);
    const signal = encodeSignal(
      { target: row.correlationKey, name, payload, dedupKey },
      { ...this.#limits, fsm: runtime, path: "" },
    );
    return signalOrInsert(row, signal, this.#target(call));
  }

  /**
   * Waits until the instance has ended, or for what `until` says, or `timeoutMs` (5,000); then answers what is there. Asking
   * again is how to wait longer. @throws the abort signal's reason; TransientError when the database never answered
   */
  waitFor<Input, Result, Signals>(
    fsm: FsmDefinition<Input, Result, Signals>,
    id: number,
    options?: WaitOptions,
  ): Promise<WaitAnswer<Result>>;
  waitFor(id: number, options?: WaitOptions): Promise<WaitAnswer>;
  async waitFor(first: unknown, second?: unknown, third?: unknown): Promise<WaitAnswer> {
    const hasFsm = typeof first === "object" && first !== null;
    const runtime = hasFsm ? runtimeOf(first) : null;
    const [id, options] = hasFsm ? [second, third] : [first, second];
    const sight = await this.#waiters.wait({ id: checkId(id, "id"), ...checkWait(options) });
    return answerOf(sight, runtime);
  }

  /**
   * Cancels an instance, by its id or the correlation key that it occupies: at its `onCancel` step it cleans up, without one it fails with `cancelled: <reason>`. A step that runs
   * is asked by its `ctx.signal`, and its end becomes the cancellation.
   */
  async cancel(target: SignalTarget, reason?: string, options: CancelOptions = {}): Promise<CancelAnswer> {
    const given = checkOptions(options, ["force", "cascade"], { code: "INVALID_OPTION", path: "options" });
    const flag = (key: string): boolean =>
      given[key] !== undefined && checkBoolean(given[key], { code: "INVALID_OPTION", path: key });
    const settings = {
      reason: reasonOf(reason),
      force: flag("force"),
      cascade: flag("cascade"),
    };
    const id = await this.#idOf(target);
    if (id === undefined) return "not_found";
    return cancelInstance(id, settings, { session: this.#session, poker: this.#poker });
  }

  /** Runs the failed step of a failed instance again, as a new visit with attempt 0. By key: where its scope holds `failed`. */
  async retry(target: SignalTarget): Promise<RetryResult> {
    const id = await this.#idOf(target);
    if (id === undefined) return { ok: false, reason: "not_found" };
    return retryInstance(id, { session: this.#session, poker: this.#poker });
  }

  /** Everything about one instance; undefined when there is none, or none any more. */
  async get(id: number): Promise<InstanceDetails | undefined> {
    return readInstance(this.#session, checkId(id, "id"));
  }

  /** One page of instances, newest first. A page may be short; `next` says where the next one starts, null that none does. */
  async list(filter: ListFilter = {}, page: ListPage = {}): Promise<InstancePage> {
    return listInstances(this.#session, filter, page);
  }

  /** Ends what the client has opened, and every wait with an error; a pool that it was given stays open. */
  async close(): Promise<void> {
    this.#waiters.close();
    try {
      await (await this.#buffering)?.close();
    } finally {
      await this.#poker.close();
      await this.#session.close();
    }
  }

  async #insertOne(row: ChildInsert, call: CallOptions): Promise<InsertResult> {
    const [result] = await insertRows([row], this.#target(call));
    return result as InsertResult; // one row, one result
  }

  /** Made by the first call that buffers: where its settings stand may have to be looked up. */
  #buffer(): Promise<InsertBuffer> {
    this.#buffering ??= this.#makeBuffer().catch((error: unknown) => {
      this.#buffering = undefined;
      throw error;
    });
    return this.#buffering;
  }

  async #makeBuffer(): Promise<InsertBuffer> {
    const found = this.#options.insertBatcher ?? (await this.#findBatcher?.());
    return new InsertBuffer({
      ...completeBatcher(found),
      insert: (rows) => insertRows(rows, this.#target({})),
    });
  }

  /** The instance that a caller means; undefined when nobody occupies the key. @throws UsageError INVALID_TARGET */
  async #idOf(target: SignalTarget): Promise<number | undefined> {
    const checked = checkTarget(target, typeof target === "string" ? "target" : "id");
    if (typeof checked === "number") return checked;
    const [occupant] = await this.#session.run("client/find_occupants", [arrayText([checked])]);
    return occupant === undefined ? undefined : readId(occupant.id);
  }

  #querier({ tx }: CallOptions): Querier {
    return tx === undefined ? this.#session : this.#session.within(tx);
  }

  #target({ tx, poke = true }: CallOptions) {
    const querier = tx === undefined ? undefined : this.#session.within(tx);
    return { session: this.#session, poker: this.#poker, querier, poke };
  }

  #delivery(call: CallOptions) {
    const { tx, poke = true } = call;
    return { querier: this.#querier(call), poker: this.#poker, inTx: tx !== undefined, poke };
  }

  get #limits() {
    return { maxPayloadBytes: this.#options.maxPayloadBytes, rateBursts: null };
  }
}

/** Makes a client. It connects at its first call. @throws UsageError INVALID_OPTION */
export function createClient(options: ClientOptions = {}, seams: ClientSeams = {}): Client {
  return new Client(options, seams);
}

/** The options of a call that has no others. */
function callOf(options: unknown): CallOptions {
  const { rest, call } = splitOptions(options);
  checkOptions(rest, [], { code: "INVALID_OPTION", path: "options" });
  return call;
}

function signalOptionsOf(options: unknown) {
  const { rest, call } = splitOptions(options);
  const { dedupKey, fsm } = checkOptions(rest, ["dedupKey", "fsm"], {
    code: "INVALID_OPTION",
    path: "options",
  });
  // encodeSignal checks the key.
  return {
    call,
    dedupKey: dedupKey as string | undefined,
    fsm: fsm === undefined ? null : runtimeOf(fsm, "fsm"),
  };
}

function reasonOf(reason: unknown): string {
  if (reason === undefined) return "";
  if (typeof reason === "string") return storableText(reason, REASON_BYTES_MAX);
  throw new UsageError("INVALID_OPTION", `reason: expected a text, found ${describe(reason)}`, {
    path: "reason",
  });
}

function checkArray(value: unknown, path: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new UsageError("INVALID_OPTION", `${path}: expected an array, found ${describe(value)}`, { path });
}
