import { expect, test } from "@jest/globals";
import type { UsageError } from "./errors.js";
import { describeError, storableText } from "./errorText.js";
import { encodeJson, findDifference } from "./json.js";
import { JSON_DEPTH_MAX, joinPath } from "./plain.js";

const LIMIT = 1_000_000;

function encode(value: unknown, maxBytes = LIMIT): string {
  return encodeJson(value, { maxBytes, path: "state" });
}

function refusal(value: unknown, maxBytes?: number): UsageError {
  try {
    encode(value, maxBytes);
  } catch (error) {
    return error as UsageError;
  }
  throw new Error("it was encoded");
}

class Money {
  constructor(readonly cents: number) {}
}

const cycle: { items: unknown[] } = { items: [] };
cycle.items.push({ back: cycle });
let deep: unknown = 1;
for (let level = 0; level <= JSON_DEPTH_MAX; level++) deep = [deep];

test.each([
  ["a NUL", { items: [1, 2, 3, { when: "a\0b" }] }, "state.items[3].when"],
  ["half a surrogate pair", { a: "\ud800" }, "state.a"],
  ["the other half", ["\udc00x"], "state[0]"],
  ["a NUL in a property name", { "a\0": 1 }, 'state["a\\u0000"]'],
  ["half a pair in a property name", { "\ud800": 1 }, 'state["\\ud800"]'],
  ["a BigInt", { n: 1n }, "state.n"],
  ["a boxed BigInt", { n: Object(1n) }, "state.n"],
  ["NaN", { n: Number.NaN }, "state.n"],
  ["Infinity", [Number.POSITIVE_INFINITY], "state[0]"],
  ["-Infinity", Number.NEGATIVE_INFINITY, "state"],
  ["undefined alone", undefined, "state"],
  ["undefined in an array", [1, undefined], "state[1]"],
  ["a hole in an array", { list: new Array(1) }, "state.list[0]"],
  ["a function", { f: () => 1 }, "state.f"],
  ["a class", { f: Money }, "state.f"],
  ["a symbol", { s: Symbol("x") }, "state.s"],
  ["a symbol as property name", { a: { [Symbol("x")]: 1 } }, "state.a"],
  ["a Date", { items: [0, 0, 0, { when: new Date() }] }, "state.items[3].when"],
  ["a Map", new Map(), "state"],
  ["a Set", { "odd key": new Set() }, 'state["odd key"]'],
  ["a WeakMap", new WeakMap(), "state"],
  ["a RegExp", /x/, "state"],
  ["a Promise", { p: Promise.resolve(1) }, "state.p"],
  ["an Error", new Error("x"), "state"],
  ["a Buffer", { b: Buffer.from("x") }, "state.b"],
  ["a typed array", new Uint8Array(2), "state"],
  ["an ArrayBuffer", new ArrayBuffer(2), "state"],
  ["an URL", new URL("http://x"), "state"],
  ["a boxed string", { s: Object("x") }, "state.s"],
  ["an instance of a class", { price: new Money(1) }, "state.price"],
  ["an object with toJSON", { toJSON: () => 1 }, "state.toJSON"],
  ["an object that inherits", Object.create({ a: 1 }), "state"],
  ["a cycle", cycle, "state.items[0].back"],
  ["a depth beyond the limit", deep, `state${"[0]".repeat(JSON_DEPTH_MAX)}`],
])("%s cannot be stored, and the path says where", (_what, value, path) => {
  expect(refusal(value)).toMatchObject({ code: "ERR_GEN_DURABLE_UNSTORABLE", path });
  expect(refusal(value).message).toContain("cannot be stored as JSON");
});

test("a value of another realm is judged by what it is", async () => {
  const { runInNewContext } = await import("node:vm");
  expect(encode(runInNewContext("({ a: [1, { b: null }] })"))).toBe('{"a":[1,{"b":null}]}');
  expect(refusal(runInNewContext("({ d: new Date() })")).message).toContain("a Date");
});

test("what JSON holds is stored as it is", () => {
  const value = {
    text: 'quotes " and \\, emoji 🎉, \u2028',
    numbers: [0, -1, 1.5, 1e308, 5e-324, Number.MAX_SAFE_INTEGER],
    nothing: null,
    yes: true,
    nested: { empty: {}, list: [] },
  };
  expect(JSON.parse(encode(value))).toEqual(value);
  expect(encode(Object.assign(Object.create(null), { a: 1 }))).toBe('{"a":1}');
  expect(encode("x")).toBe('"x"');
});

test("a value may stand in several places", () => {
  const shared = { a: 1 };
  expect(encode([shared, shared])).toBe('[{"a":1},{"a":1}]');
});

test("a property that is undefined is left out, and -0 becomes 0", () => {
  expect(encode({ a: undefined, b: -0 })).toBe('{"b":0}');
});

test("the limit counts UTF-8 bytes", () => {
  expect(encode("é".repeat(4), 10)).toBe('"éééé"');
  expect(refusal("é".repeat(5), 10)).toMatchObject({
    code: "ERR_GEN_DURABLE_PAYLOAD_TOO_LARGE",
    path: "state",
    facts: { bytes: 12, maxBytes: 10 },
  });
});

test("a value that unfolds without end is refused before it is written out", () => {
  let value: unknown = "x".repeat(10);
  for (let level = 0; level < 60; level++) value = [value, value];
  expect(refusal(value).code).toBe("ERR_GEN_DURABLE_PAYLOAD_TOO_LARGE");
});

test("paths are written as one would write them in code", () => {
  expect(joinPath("state", ["items", 3, "when"])).toBe("state.items[3].when");
  expect(joinPath("", ["queues", "a b"])).toBe('queues["a b"]');
  expect(joinPath("x", [])).toBe("x");
});

test.each([
  [{ a: 1, b: [1, { c: 2 }] }, { b: [1, { c: 2 }], a: 1 }, null],
  [{ a: 1, b: undefined }, { a: 1 }, null],
  [{ a: 0 }, { a: -0 }, null],
  [{ a: 1 }, { a: 2 }, ["a"]],
  [{ a: [1, 2] }, { a: [1, 3] }, ["a", 1]],
  [{ a: [1, 2] }, { a: [1] }, ["a"]],
  [{ a: 1 }, {}, ["a"]],
  [{}, { a: 1 }, ["a"]],
  [{ a: null }, { a: {} }, ["a"]],
  [{ a: [] }, { a: {} }, ["a"]],
  [{ a: new Date(0) }, { a: {} }, ["a"]],
  [1, "1", []],
])("%j and %j differ at %j", (given, stored, keys) => {
  expect(findDifference(given, stored)).toEqual(keys);
});

test("a default is no difference where defaults may be added", () => {
  expect(findDifference({ a: 1, b: undefined }, { a: 1, b: 2, c: 3 }, true)).toBeNull();
  expect(findDifference({ a: 1 }, { c: 3 }, true)).toEqual(["a"]);
});

test("any text becomes storable, and keeps to its bytes", () => {
  expect(storableText("a\0b\ud800c🎉")).toBe("a\uFFFDb\uFFFDc🎉");
  expect(storableText("é".repeat(10), 11)).toBe("éééé…");
  expect(Buffer.byteLength(storableText("🎉".repeat(10_000), 100))).toBeLessThanOrEqual(100);
  expect(storableText("🎉".repeat(3), 11)).toBe("🎉🎉…");
  expect(storableText("exactly", 7)).toBe("exactly");
});

test("an error is told with its causes", () => {
  expect(describeError(new Error("boom"))).toBe("boom");
  const refused = new Error("connect ECONNREFUSED");
  expect(describeError(new Error("fetch failed", { cause: refused }))).toBe(
    "fetch failed; caused by: connect ECONNREFUSED",
  );
  expect(describeError(new Error(`cannot load: ${refused.message}`, { cause: refused }))).toBe(
    "cannot load: connect ECONNREFUSED",
  );
  expect(describeError(new AggregateError([new Error("a"), new Error("b")], "all failed"))).toBe(
    "all failed [a; b]",
  );
  expect(describeError(new TypeError(""))).toBe("TypeError");
});

test("whatever was thrown is told, and telling never throws", () => {
  expect(describeError("text")).toBe("text");
  expect(describeError(undefined)).toBe("undefined");
  expect(describeError({ status: 500 })).toBe("{ status: 500 }");
  expect(describeError(Symbol("x"))).toBe("Symbol(x)");
  expect(describeError(Object.create(null))).toBe("[Object: null prototype] {}");
  expect(describeError(1n)).toBe("1n");
  const hostile = new Proxy(new Error("x"), {
    get: () => {
      throw new Error("no");
    },
    getPrototypeOf: () => {
      throw new Error("no");
    },
  });
  expect(typeof describeError(hostile)).toBe("string");
  const round = new Error("round");
  round.cause = round;
  expect(describeError(round)).toBe("round");
  expect(describeError(new Error("a\0b"))).toBe("a\uFFFDb");
  expect(Buffer.byteLength(describeError(new Error("x".repeat(1e6))))).toBeLessThanOrEqual(8_192);
});
