// State: JSON text of an instance's state, by its machine's schema, or any JSON object where it has none.

import { UsageError } from "../errors.js";
import type { JsonText } from "../instance.js";
import { encodeJson } from "../json.js";
import { describe } from "../name.js";
import type { RuntimeFsm } from "./definition.js";
import { absentValue, encodeHandedOver, encodeInput } from "./schema.js";

export interface StateUse {
  path: string;
  maxBytes: number;
}

const CODE = "INVALID_STATE";

/** The state that an insert states, with the schema's defaults; absent: what the schema makes of nothing. */
export function encodeInitialState(fsm: RuntimeFsm, state: unknown, use: StateUse): JsonText {
  const schema = fsm.stateSchema;
  if (schema === null) return encodeObject(state === undefined ? {} : state, use);
  return encodeInput(schema, state === undefined ? absentValue(schema) : state, {
    path: use.path,
    maxBytes: use.maxBytes,
    code: CODE,
  });
}

/** The state that a step hands to the next one. */
export function encodeNextState(fsm: RuntimeFsm, state: unknown, use: StateUse): JsonText {
  if (fsm.stateSchema === null) return encodeObject(state, use);
  return encodeHandedOver(fsm.stateSchema, state, { path: use.path, maxBytes: use.maxBytes, code: CODE });
}

function encodeObject(state: unknown, { path, maxBytes }: StateUse): JsonText {
  if (typeof state !== "object" || state === null || Array.isArray(state))
    throw new UsageError(CODE, `${path}: expected an object, found ${describe(state)}`, { path });
  return encodeJson(state, { path, maxBytes });
}
