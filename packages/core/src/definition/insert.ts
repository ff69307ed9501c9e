// Insert: what a client or a parent asks for, checked and turned into the row to be written. Nothing is written before
// everything is checked.

import { UsageError } from "../errors.js";
import { LIVE_STATUSES, STATUSES, type Status } from "../instance.js";
import { checkName, describe, INT_MAX } from "../name.js";
import { joinPath } from "../plain.js";
import type { ChildInsert } from "../protocol/outcome.js";
import { reading } from "../readable.js";
import { dueOf } from "../schedule.js";
import { encodeConcurrencyKey, encodeRate, type Limits } from "./admission.js";
import type { RuntimeFsm } from "./definition.js";
import { checkInteger, checkOptions } from "./options.js";
import { encodeInitialState } from "./state.js";

/** The keys of InsertOptions. A client takes its own (`tx`, `poke`) off before. */
export const INSERT_OPTIONS = [
  "state",
  "queue",
  "priority",
  "delayMs",
  "at",
  "concurrencyKey",
  "rateLimit",
  "weight",
  "correlationKey",
  "correlationScope",
] as const;

const CODE = "INVALID_OPTION";

/**
 * The row that an insert writes. `path` is what the options are called in an error: "" for an insert of its own,
 * `rows[3]` in a list, `children[3]` for a child. @throws UsageError with the path of what is wrong
 */
export function encodeInsert(fsm: RuntimeFsm, options: unknown, limits: Limits, path = ""): ChildInsert {
  return reading(path === "" ? "options" : path, () => encodeReadable(fsm, options, limits, path));
}

function encodeReadable(fsm: RuntimeFsm, options: unknown, limits: Limits, path: string): ChildInsert {
  const given = checkOptions(options, INSERT_OPTIONS, { code: CODE, path });
  const at = (key: string): string => joinPath(path, [key]);
  const { rateLimit, weight } = encodeRate(given, limits, path);
  return {
    fsm: fsm.name,
    version: fsm.version,
    step: fsm.initialStep,
    state: encodeInitialState(fsm, given.state, { path: at("state"), maxBytes: limits.maxPayloadBytes }),
    queue: given.queue === undefined ? fsm.queue : checkName(given.queue, at("queue")),
    priority: priorityOf(given.priority, at("priority")),
    due: dueOf(given, path),
    concurrencyKey:
      given.concurrencyKey === undefined
        ? null
        : encodeConcurrencyKey(given.concurrencyKey, at("concurrencyKey")),
    rateLimit,
    weight,
    correlationKey:
      given.correlationKey === undefined ? null : checkName(given.correlationKey, at("correlationKey")),
    correlationScope: scopeOf(given.correlationScope, at("correlationScope")),
  };
}

/** An integer that Postgres can hold; absent: 0. Lower runs first. */
export function priorityOf(value: unknown, path: string): number {
  if (value === undefined) return 0;
  return checkInteger(value, { code: CODE, path }, { min: -INT_MAX, max: INT_MAX });
}

/** The statuses in which a correlation key is occupied; absent: the live ones. */
export function scopeOf(value: unknown, path: string): readonly Status[] {
  if (value === undefined) return LIVE_STATUSES;
  if (!Array.isArray(value))
    throw new UsageError(CODE, `${path}: expected a list of statuses, found ${describe(value)}`, { path });
  return [...new Set(value.map((status: unknown, index) => statusOf(status, `${path}[${index}]`)))];
}

function statusOf(value: unknown, path: string): Status {
  const status = STATUSES.find((known) => known === value);
  if (status !== undefined) return status;
  throw new UsageError(CODE, `${path}: expected one of ${STATUSES.join(", ")}, found ${describe(value)}`, {
    path,
  });
}
