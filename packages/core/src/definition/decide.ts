// Decide: what a step returned, checked whole and encoded, in the worker. Whatever cannot be committed is found here and
// goes to the instance's own `handle`, so that it never reaches a batch that others share.

import { UsageError, unreachable } from "../errors.js";
import { describeError, storableText } from "../errorText.js";
import type { JsonText } from "../instance.js";
import { encodeJson } from "../json.js";
import { checkName, describe, suggest } from "../name.js";
import type { ChildInsert, Decision, KeyChange } from "../protocol/outcome.js";
import { reading } from "../readable.js";
import { deadlineOf, dueOf } from "../schedule.js";
import { encodeConcurrencyKey, encodeRate, type Limits } from "./admission.js";
import { childDraftOf } from "./child.js";
import type { RuntimeFsm } from "./definition.js";
import { encodeInsert } from "./insert.js";
import { checkBoolean, checkInteger, checkOptions } from "./options.js";
import type { OutcomeDraft } from "./outcome.js";
import { encodeHandedOver } from "./schema.js";
import { encodeNextState } from "./state.js";

/** Signal names of one await: what one index probe a wake may compare. */
export const AWAIT_NAMES_MAX = 100;

/** Children of one outcome; their insert is one statement in a transaction that others wait for. */
export const CHILDREN_MAX = 20_000;

/** Bytes of all children's states of one outcome, for the same reason. */
export const CHILDREN_BYTES_MAX = 32 * 1024 * 1024;

/** The machines that a worker knows. */
export interface KnownFsms {
  get(name: string, version: number): RuntimeFsm | undefined;
  latest(name: string): RuntimeFsm | undefined;
  names(): readonly string[];
}

const CODE = "INVALID_OPTION";
const DUE_OPTIONS = ["delayMs", "at"] as const;
const NEXT_OPTIONS = [...DUE_OPTIONS, "rateLimit", "weight", "concurrencyKey", "inline"] as const;
const AWAIT_OPTIONS = ["timeoutMs", "until"] as const;

/** @throws UsageError with code and path: what cannot be stored, an unknown step, a state of the wrong shape, ... */
export function decide(draft: OutcomeDraft, fsm: RuntimeFsm, known: KnownFsms, limits: Limits): Decision {
  return reading(
    `ctx.${draft.kind === "await" ? "awaitSignal" : draft.kind === "children" ? "scheduleChildren" : draft.kind}`,
    () => decideReadable(draft, fsm, known, limits),
  );
}

function decideReadable(draft: OutcomeDraft, fsm: RuntimeFsm, known: KnownFsms, limits: Limits): Decision {
  const stateOf = (state: unknown): JsonText =>
    encodeNextState(fsm, state, { path: "state", maxBytes: limits.maxPayloadBytes });
  switch (draft.kind) {
    case "next":
      return decideNext(draft, fsm, limits, stateOf);
    case "retry": {
      const options = checkOptions(draft.options, DUE_OPTIONS, { code: CODE, path: "options" });
      return { kind: "retry", state: stateOf(draft.state), due: dueOf(options, "options") };
    }
    case "await": {
      const options = checkOptions(draft.options, AWAIT_OPTIONS, { code: CODE, path: "options" });
      return {
        kind: "await",
        names: signalNames(draft.names, fsm),
        step: knownStep(draft.step, fsm),
        state: stateOf(draft.state),
        deadline: deadlineOf(options, "options"),
      };
    }
    case "children":
      return {
        kind: "children",
        step: knownStep(draft.step, fsm),
        state: stateOf(draft.state),
        children: encodeChildren(draft.children, known, limits),
      };
    case "done":
      return { kind: "done", result: encodeResult(draft.result, fsm, limits) };
    case "stop":
      return { kind: "stop", reason: reasonText(draft.reason) };
    default:
      return unreachable(draft);
  }
}

function decideNext(
  draft: OutcomeDraft & { kind: "next" },
  fsm: RuntimeFsm,
  limits: Limits,
  stateOf: (state: unknown) => JsonText,
): Decision {
  const options = checkOptions(draft.options, NEXT_OPTIONS, { code: CODE, path: "options" });
  const rate = encodeRate(options, limits, "options");
  const due = dueOf(options, "options");
  return {
    kind: "next",
    step: knownStep(draft.step, fsm),
    state: stateOf(draft.state),
    due,
    // Spelt out, here and elsewhere on the hot path: a spread costs microseconds.
    rateLimit: rate.rateLimit,
    weight: rate.weight,
    key: keyChange(options.concurrencyKey),
    // A row that sleeps holds no claim.
    inline: inlineOf(options.inline, fsm) && due === null,
  };
}

function keyChange(key: unknown): KeyChange {
  if (key === undefined || key === null) return key;
  return encodeConcurrencyKey(key, "options.concurrencyKey");
}

function inlineOf(inline: unknown, fsm: RuntimeFsm): boolean {
  return inline === undefined ? fsm.inline : checkBoolean(inline, { code: CODE, path: "options.inline" });
}

function knownStep(step: unknown, fsm: RuntimeFsm): string {
  if (typeof step === "string" && fsm.steps.has(step)) return step;
  const names = [...fsm.steps.keys()];
  const hint = typeof step === "string" ? suggest(step, names) : "";
  throw new UsageError(
    "UNKNOWN_STEP",
    `step: ${describe(step)} is no step of ${fsm.name} version ${fsm.version}${hint} (steps: ${names.join(", ")})`,
    { path: "step", fsm: fsm.name, version: fsm.version },
  );
}

function signalNames(names: unknown, fsm: RuntimeFsm): string[] {
  const list: readonly unknown[] = Array.isArray(names) ? names : [names];
  if (list.length === 0 || list.length > AWAIT_NAMES_MAX)
    throw new UsageError(
      "INVALID_AWAIT",
      `names: expected 1 to ${AWAIT_NAMES_MAX} signal names, found ${list.length}`,
      { path: "names" },
    );
  const checked = list.map((name, index) => {
    const path = Array.isArray(names) ? `names[${index}]` : "names";
    const text = checkName(name, path);
    if (fsm.signalSchemas !== null && !fsm.signalSchemas.has(text))
      throw unknownSignal(text, path, fsm.signalSchemas);
    return text;
  });
  return [...new Set(checked)];
}

function unknownSignal(name: string, path: string, schemas: ReadonlyMap<string, unknown>): UsageError {
  const allowed = [...schemas.keys()];
  return new UsageError(
    "UNKNOWN_SIGNAL",
    `${path}: no signal is named "${name}"${suggest(name, allowed)} (declared: ${allowed.join(", ")})`,
    { path },
  );
}

function encodeChildren(children: unknown, known: KnownFsms, limits: Limits): ChildInsert[] {
  if (!Array.isArray(children))
    throw new UsageError("INVALID_CHILD", `children: expected an array, found ${describe(children)}`, {
      path: "children",
    });
  if (children.length > CHILDREN_MAX)
    throw new UsageError(
      "TOO_MANY_CHILDREN",
      `children: found ${children.length}, at most ${CHILDREN_MAX} are allowed in one outcome`,
      { path: "children" },
    );
  let bytes = 0;
  return children.map((child: unknown, index) => {
    const row = encodeChild(child, `children[${index}]`, known, limits);
    bytes += Buffer.byteLength(row.state);
    if (bytes > CHILDREN_BYTES_MAX)
      throw new UsageError(
        "PAYLOAD_TOO_LARGE",
        `children: their states take more than ${CHILDREN_BYTES_MAX} bytes together`,
        { path: "children", maxBytes: CHILDREN_BYTES_MAX },
      );
    return row;
  });
}

function encodeChild(child: unknown, path: string, known: KnownFsms, limits: Limits): ChildInsert {
  const draft = childDraftOf(child);
  if (draft === undefined)
    throw new UsageError(
      "INVALID_CHILD",
      `${path}: expected what definition.child(...) or childOf(...) gives, found ${describe(child)}`,
      { path },
    );
  const name = checkName(draft.fsm, `${path}.fsm`);
  const version =
    draft.version === null || draft.version === undefined
      ? undefined
      : checkInteger(draft.version, { code: "INVALID_CHILD", path: `${path}.version` });
  const fsm = version === undefined ? known.latest(name) : known.get(name, version);
  if (fsm === undefined) throw unknownFsm(name, version, path, known);
  return encodeInsert(fsm, draft.options, limits, path);
}

function unknownFsm(name: string, version: number | undefined, path: string, known: KnownFsms): UsageError {
  const wanted = version === undefined ? `"${name}"` : `"${name}" version ${version}`;
  const names = known.names();
  return new UsageError(
    "UNKNOWN_FSM",
    `${path}: this node knows no FSM ${wanted}${names.includes(name) ? "" : suggest(name, names)}`,
    { path, fsm: name, version },
  );
}

function encodeResult(result: unknown, fsm: RuntimeFsm, { maxPayloadBytes: maxBytes }: Limits): JsonText {
  const path = "result";
  if (fsm.resultSchema === null) return encodeJson(result === undefined ? null : result, { path, maxBytes });
  return encodeHandedOver(fsm.resultSchema, result, { path, code: "INVALID_RESULT", maxBytes });
}

// A stop must never fail for what its reason is: whatever it is becomes text.
function reasonText(reason: unknown): string {
  return typeof reason === "string" ? storableText(reason) : describeError(reason);
}
