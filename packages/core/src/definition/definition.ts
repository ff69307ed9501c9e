// Definition: a machine as the program holds it, and as the engine runs it. The handle that `defineFsm` and `defineJob`
// return is typed for its users; `runtime` is what is left of it at run time.

import { types } from "node:util";
import { type Child, makeChild } from "./child.js";
import type { InsertOptions } from "./insertOptions.js";
import type { Schema } from "./storable.js";

// A registered symbol: the definitions' copy of this package may be another one than the engine's.
const FSM = Symbol.for("gen-durable.fsm");

export interface RuntimeStep {
  name: string;
  run(ctx: unknown): unknown;
  /** Milliseconds; null: no limit. */
  timeoutMs: number | null;
  rerunAfterCrash: boolean;
}

export interface RuntimeFsm {
  name: string;
  version: number;
  queue: string;
  initialStep: string;
  steps: ReadonlyMap<string, RuntimeStep>;
  /** null: an error stops the instance with its message. */
  handle: ((error: Error, ctx: unknown) => unknown) | null;
  /** null: any JSON object. */
  stateSchema: Schema | null;
  resultSchema: Schema | null;
  /** null: any name, any payload. */
  signalSchemas: ReadonlyMap<string, Schema> | null;
  /** The state of a stored row as the step sees it. @throws UsageError INVALID_STATE with the path */
  parseState(value: unknown): unknown;
  onCancel: string | null;
  /** Whether `next` runs ahead on its claim unless its options say otherwise. */
  inline: boolean;
}

/** The compiler's memory of a definition; nothing at run time. */
export interface FsmTypes<Input, Result, Signals> {
  input: Input;
  result: Result;
  signals: Signals;
}

/** `child` may be called without options where the state may be left out. */
type ChildArguments<Input> =
  Record<never, never> extends Input ? [options?: InsertOptions<Input>] : [options: InsertOptions<Input>];

/** A machine. `Input` is the state that an insert takes, `Signals` the payloads by name. */
export interface FsmDefinition<Input = unknown, Result = unknown, Signals = unknown> {
  readonly name: string;
  readonly version: number;
  readonly queue: string;
  /** The engine's view; no part of the public interface. @internal */
  readonly runtime: RuntimeFsm;
  readonly "~types"?: FsmTypes<Input, Result, Signals>;
  /** A child for `ctx.scheduleChildren`. Its state is checked when the parent's outcome is. */
  child(...args: ChildArguments<Input>): Child;
}

type TypesOf<D extends FsmDefinition> = NonNullable<D["~types"]>;
/** The state that an insert of this machine takes. */
export type InputOfFsm<D extends FsmDefinition> = TypesOf<D>["input"];
export type ResultOfFsm<D extends FsmDefinition> = TypesOf<D>["result"];
export type SignalsOfFsm<D extends FsmDefinition> = TypesOf<D>["signals"];

export function makeDefinition<Input, Result, Signals>(
  runtime: RuntimeFsm,
): FsmDefinition<Input, Result, Signals> {
  const { name, version, queue } = runtime;
  const definition = {
    [FSM]: true,
    name,
    version,
    queue,
    runtime,
    child: (options: unknown = {}) => makeChild({ fsm: name, version, options }),
  };
  return Object.freeze(definition);
}

export function isDefinition(value: unknown): value is FsmDefinition {
  return typeof value === "object" && value !== null && !types.isProxy(value) && Object.hasOwn(value, FSM);
}

/** What a module exports, once each, in the order of its exports. */
export function definitionsOf(exports: object): FsmDefinition[] {
  return [...new Set(Object.values(exports).filter(isDefinition))];
}
