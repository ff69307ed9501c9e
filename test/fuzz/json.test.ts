// What goes in comes out equal, or is refused by name before anything is written: the encoder of every state, result and payload.

import { isDeepStrictEqual } from "node:util";
import { expect, test } from "@jest/globals";
import fc from "fast-check";
import { type GenDurableError, UsageError } from "#core/errors.js";
import { describeError, isStorableText, storableText } from "#core/errorText.js";
import { encodeJson } from "#core/json.js";
import { packOutcomes, packRows, unpackOutcomes, unpackRows } from "#core/protocol/codec.js";
import { HOSTILE } from "./hostile.js";
import { anything, runs, sound } from "./values.js";

const MAX_BYTES = 4 * 1024 * 1024;

/** As JSON changes it on purpose: no undefined properties, no -0, plain prototypes. */
function documented(value: unknown): unknown {
  if (value === 0) return 0;
  if (Array.isArray(value)) return value.map(documented);
  if (typeof value !== "object" || value === null) return value;
  const made: Record<string, unknown> = {};
  for (const [key, inner] of Object.entries(value)) {
    if (inner === undefined) continue;
    Object.defineProperty(made, key, {
      value: documented(inner),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return made;
}

/** The text, or the refusal. @throws what is neither */
function encode(value: unknown): string | UsageError {
  try {
    return encodeJson(value, { path: "state", maxBytes: MAX_BYTES });
  } catch (error) {
    if (error instanceof UsageError) return error;
    throw error;
  }
}

function expectRefusal(error: GenDurableError): void {
  expect(error.code).toMatch(/^ERR_GEN_DURABLE_(UNSTORABLE|PAYLOAD_TOO_LARGE)$/);
  expect(error.path).toMatch(/^state/);
  expect(error.message).toContain("state");
}

test("sound values come out as they went in", () => {
  fc.assert(
    fc.property(sound(), (value) => {
      const text = encode(value);
      if (typeof text !== "string") throw text;
      return isDeepStrictEqual(JSON.parse(text), documented(value));
    }),
    runs("sound values", 500),
  );
});

test.each(HOSTILE.map(({ what, make }) => [what, make] as const))(
  "%s comes out equal, or is refused",
  (_, make) => {
    const answer = encode(make());
    if (answer instanceof UsageError) expectRefusal(answer);
    else expect(isStorableText(answer) && isStorableText(JSON.stringify(JSON.parse(answer)))).toBe(true);
  },
);

test("whatever holds whatever comes out equal, or is refused by its path", () => {
  fc.assert(
    fc.property(anything(), ({ make, what }) => {
      const answer = encode(make());
      if (answer instanceof UsageError) expectRefusal(answer);
      // A value that is the same each time it is read is stored as it is.
      else if (!/getter|proxy/.test(what)) expect(JSON.parse(answer)).toEqual(documented(make()));
    }),
    runs("any value", 150),
  );
});

test("describeError takes whatever was thrown, and its text can be stored", () => {
  fc.assert(
    fc.property(anything(), fc.integer({ min: 0, max: 9_000 }), ({ make }, maxBytes) => {
      const text = describeError(make(), maxBytes);
      return (
        typeof text === "string" && isStorableText(text) && Buffer.byteLength(text) <= Math.max(maxBytes, 3)
      );
    }),
    runs("describeError", 150),
  );
});

test("storableText makes any text storable, and leaves a storable one as it is", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.nat({ max: 200 }), (text, maxBytes) => {
      const stored = storableText(text, maxBytes);
      if (!isStorableText(stored)) return false;
      return !isStorableText(text) || Buffer.byteLength(text) > maxBytes || stored === text;
    }),
    runs("storableText", 500),
  );
});

const id = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
const int = fc.integer({ min: -2_147_483_648, max: 2_147_483_647 });
const text = fc.string({ unit: "grapheme" });
/** Any number but -0, which the codec does not tell from 0. */
const number = (constraints: fc.DoubleConstraints = {}): fc.Arbitrary<number> =>
  fc.double({ ...constraints, noNaN: true }).map((value) => value + 0);
const due = fc.option(
  fc.oneof(
    fc.record({ delayMs: number({ min: 0 }) }),
    fc.record({ atMs: number({ noDefaultInfinity: true }) }),
  ),
);
const decision = fc.oneof(
  fc.record({
    kind: fc.constant("next" as const),
    step: text,
    state: text,
    due,
    rateLimit: fc.option(text),
    weight: number(),
    key: fc.option(text),
    inline: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("retry" as const), state: text, due }),
  fc.record({
    kind: fc.constant("await" as const),
    names: fc.array(text),
    step: text,
    state: text,
    deadline: due,
  }),
  fc.record({ kind: fc.constant("done" as const), result: text }),
  fc.record({ kind: fc.constant("stop" as const), reason: text }),
);
const outcome = fc.record({
  id,
  claim: text,
  seat: int,
  generation: int,
  fsm: text,
  version: int,
  step: text,
  visit: int,
  attempt: int,
  queue: text,
  parentId: fc.option(id),
  parentVisit: fc.option(int),
  awaited: fc.array(id),
  shown: fc.array(id),
  hasChildren: fc.boolean(),
  durationMs: number(),
  decision,
});
const claimed = fc.record({
  id,
  claim: text,
  seat: int,
  generation: int,
  fsm: text,
  version: int,
  step: text,
  state: text,
  attempt: int,
  visit: int,
  crashes: int,
  reaps: int,
  queue: text,
  priority: int,
  awaits: fc.array(text),
  awaitSeen: fc.array(id),
  wokenBy: fc.constantFrom(null, "signal" as const, "timeout" as const, "children" as const),
  inbox: fc.option(text),
  children: fc.option(text),
  parentId: fc.option(id),
  parentVisit: fc.option(int),
  cancelReason: fc.option(text),
  verdict: fc.constant(null),
});

test("outcomes and rows come through the threads' codec as they were packed", () => {
  fc.assert(
    fc.property(
      fc.array(outcome, { maxLength: 4 }),
      fc.array(claimed, { maxLength: 4 }),
      (outcomes, rows) => {
        expect(unpackOutcomes(packOutcomes(outcomes))).toEqual(outcomes);
        expect(unpackRows(packRows(rows))).toEqual(rows);
      },
    ),
    runs("codec", 100),
  );
});
