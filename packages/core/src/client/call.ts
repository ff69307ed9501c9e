// Call: what every writing call takes besides its own options, and the arguments that calls share.

import { type FsmDefinition, isDefinition, type RuntimeFsm } from "../definition/definition.js";
import type { InsertOptions, InsertSettings } from "../definition/insertOptions.js";
import { UsageError } from "../errors.js";
import { describe } from "../name.js";
import { isPlainObject } from "../plain.js";
import { reading } from "../readable.js";
import type { Tx } from "./session.js";

export interface CallOptions {
  /** The caller's transaction: anything with `query(text, values): Promise<{ rows }>`. What is written commits with it. */
  tx?: Tx | undefined;
  /** False: nodes are not told of the new work and find it by their next poll. */
  poke?: boolean | undefined;
}

/** Options may be left out where every field of the state has a default. */
export type InsertArguments<Input> =
  Record<never, never> extends Input
    ? [options?: InsertOptions<Input> & CallOptions]
    : [options: InsertOptions<Input> & CallOptions];

/** The same, for an insert that has no call of its own. */
export type BufferedArguments<Input> =
  Record<never, never> extends Input ? [options?: InsertOptions<Input>] : [options: InsertOptions<Input>];

export interface NamedInsertOptions extends InsertSettings, CallOptions {
  /** A JSON object; the node checks it by the machine's schema when the first step runs. */
  state?: Record<string, unknown>;
  /** Absent: the newest that a node has registered. */
  version?: number;
}

/** A machine of any types. */
export type AnyFsm = Pick<FsmDefinition, "name" | "version" | "queue" | "runtime">;

/** @throws UsageError UNKNOWN_FSM when the value is no definition */
export function runtimeOf(fsm: unknown, path = "fsm"): RuntimeFsm {
  if (isDefinition(fsm)) return fsm.runtime;
  const hint = typeof fsm === "string" ? "; by name: insertByName" : "";
  throw new UsageError(
    "UNKNOWN_FSM",
    `${path}: expected what defineFsm or defineJob returned, found ${describe(fsm)}${hint}`,
    { path },
  );
}

/** Takes the call's own options off the rest. @throws UsageError INVALID_OPTION */
export function splitOptions(options: unknown): { rest: unknown; call: CallOptions } {
  return reading("options", () => splitReadable(options));
}

function splitReadable(options: unknown): { rest: unknown; call: CallOptions } {
  if (!isPlainObject(options)) return { rest: options, call: {} };
  const { tx, poke, ...rest } = options;
  if (poke !== undefined && typeof poke !== "boolean")
    throw new UsageError("INVALID_OPTION", `poke: expected true or false, found ${describe(poke)}`, {
      path: "poke",
    });
  return { rest, call: { tx: tx as Tx | undefined, poke } }; // `tx` is checked where it is used
}
