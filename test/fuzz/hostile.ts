// biome-ignore-all lint/suspicious/noThenProperty: that is the point
// biome-ignore-all lint/suspicious/noSparseArray: that is the point
// Hostile values: what user code can return, throw, or put into anything. Each is made anew when it is used, since a getter or a
// proxy may answer differently each time.

/** A value, and what it is called in a failure's report. */
export interface Hostile {
  what: string;
  make: () => unknown;
}

const revoked = (target: object): unknown => {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
};
const throwing = (): never => {
  throw new Error("thrown by a trap");
};

export const HOSTILE: readonly Hostile[] = [
  ["undefined", () => undefined],
  ["a symbol", () => Symbol("s")],
  ["a function", () => () => 1],
  ["a class", () => class Made {}],
  ["a BigInt", () => 10n],
  ["NaN", () => Number.NaN],
  ["Infinity", () => Number.POSITIVE_INFINITY],
  ["-0", () => -0],
  ["a Date", () => new Date(0)],
  ["an invalid Date", () => new Date(Number.NaN)],
  ["a Map", () => new Map([["a", 1]])],
  ["a Set", () => new Set([1])],
  ["a RegExp", () => /a/],
  ["a Promise", () => Promise.resolve(1)],
  ["a rejected promise", () => Object.assign(Promise.reject(new Error("rejected")), {}).catch(() => 1)],
  ["a WeakMap", () => new WeakMap()],
  ["an Error", () => new Error("an error")],
  ["a Buffer", () => Buffer.from("a")],
  ["an ArrayBuffer", () => new ArrayBuffer(2)],
  ["a boxed string", () => new String("boxed")],
  ["a boxed number", () => new Number(1)],
  [
    "a class instance",
    () =>
      new (class Point {
        x = 1;
      })(),
  ],
  ["an array of a class", () => new (class Rows extends Array {})(3)],
  ["a NUL", () => "a\0b"],
  ["a lone high surrogate", () => "\ud800"],
  ["a lone low surrogate", () => "x\udc00y"],
  ["a NUL in a property's name", () => ({ "a\0": 1 })],
  ["a sparse array", () => [1, , 2]],
  ["a huge sparse array", () => Object.assign([], { length: 4_294_967_295 })],
  ["an array with a property", () => Object.assign([1], { more: 2 })],
  ["an array with toJSON", () => Object.assign([1], { toJSON: () => "other" })],
  ["an object with toJSON", () => ({ toJSON: () => ({ other: 1 }) })],
  ["an object with a hidden toJSON", () => Object.defineProperty({ a: 1 }, "toJSON", { value: () => 5 })],
  ["an inherited toJSON", () => Object.create(Object.assign(Object.create(null), { toJSON: () => 6 }))],
  ["a hidden property", () => Object.defineProperty({}, "hidden", { value: 1 })],
  ["a property named by a symbol", () => ({ [Symbol("k")]: 1 })],
  ["an own __proto__", () => JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{}}}')],
  ["a null prototype", () => Object.assign(Object.create(null), { a: 1 })],
  ["an inherited property", () => Object.create({ inherited: 1 })],
  [
    "a getter that throws",
    () => ({
      get a() {
        return throwing();
      },
    }),
  ],
  [
    "a getter that changes",
    () => {
      let n = 0;
      return {
        get a() {
          return n++;
        },
      };
    },
  ],
  [
    "a getter that becomes a function",
    () => {
      let n = 0;
      return {
        get a() {
          return n++ === 0 ? 1 : () => 1;
        },
      };
    },
  ],
  [
    "a getter that becomes undefined",
    () => {
      let n = 0;
      return {
        get a() {
          return n++ === 0 ? 1 : undefined;
        },
      };
    },
  ],
  [
    "a getter that becomes NaN",
    () => {
      let n = 0;
      return [
        {
          get a() {
            return n++ === 0 ? 1 : Number.NaN;
          },
        },
      ];
    },
  ],
  [
    "a getter that becomes a NUL",
    () => {
      let n = 0;
      return {
        get a() {
          return n++ === 0 ? "a" : "\0";
        },
      };
    },
  ],
  [
    "a getter that becomes a BigInt",
    () => {
      let n = 0;
      return {
        get a() {
          return n++ === 0 ? 1 : 1n;
        },
      };
    },
  ],
  ["a proxy", () => new Proxy({ a: 1 }, {})],
  ["a revoked proxy", () => revoked({})],
  ["a revoked proxy of an array", () => revoked([])],
  ["a proxy whose keys throw", () => new Proxy({}, { ownKeys: throwing })],
  ["a proxy whose prototype throws", () => new Proxy({}, { getPrototypeOf: throwing })],
  ["a proxy whose properties throw", () => new Proxy({ a: 1 }, { get: throwing, has: throwing })],
  [
    "a proxy of an array with an endless length",
    () => new Proxy([], { get: (_, key) => (key === "length" ? 2 ** 31 : 1) }),
  ],
  ["a proxy that unfolds without end", () => endless()],
  [
    "a cycle",
    () => {
      const a: Record<string, unknown> = {};
      a.self = a;
      return a;
    },
  ],
  [
    "a cycle through an array",
    () => {
      const a: unknown[] = [];
      a.push(a);
      return a;
    },
  ],
  ["a thenable", () => ({ then: (settle: (value: unknown) => void) => settle(1) })],
  ["a thenable that throws", () => ({ then: throwing })],
  [
    "a then that throws when it is read",
    () => Object.defineProperty({}, "then", { enumerable: true, get: throwing }),
  ],
  [
    "a thenable that rejects twice",
    () => ({
      then: (_: unknown, fail: (e: unknown) => void) => {
        fail(1);
        fail(2);
      },
    }),
  ],
  ["deep", () => nested(2_000)],
  ["very deep", () => nested(20_000)],
  ["a long text", () => "x".repeat(5 * 1024 * 1024)],
  ["many properties", () => Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`p${n}`, n]))],
  ["an error whose message is a symbol", () => Object.assign(new Error(), { message: Symbol("m") })],
  [
    "an error whose message is an object",
    () => Object.assign(new Error(), { message: { toString: throwing } }),
  ],
  [
    "an error whose message is a number",
    () => Object.assign(new Error("a", { cause: new Error("1") }), { message: 1 }),
  ],
  ["an error whose message throws", () => Object.defineProperty(new Error(), "message", { get: throwing })],
  ["an error whose name is a symbol", () => Object.assign(new Error(""), { name: Symbol("n") })],
  ["an error whose cause throws", () => Object.defineProperty(new Error("c"), "cause", { get: throwing })],
  [
    "an error that is its own cause",
    () => {
      const e = new Error("loop");
      e.cause = e;
      return e;
    },
  ],
  [
    "an error with errors that are none",
    () => Object.assign(new Error("many"), { errors: [Symbol("e"), revoked({}), null] }),
  ],
  ["an error with a NUL", () => new Error("a\0\ud800")],
  ["an error with a huge message", () => new Error("x".repeat(1_000_000))],
  ["an error that was frozen", () => Object.freeze(new Error("frozen"))],
  ["an aggregate", () => new AggregateError([new Error("1"), "2"], "both")],
  ["an object that inspects itself", () => ({ [Symbol.for("nodejs.util.inspect.custom")]: throwing })],
  ["null", () => null],
].map(([what, make]) => ({ what, make }) as Hostile);

function endless(): unknown {
  return new Proxy({ a: 1 }, { get: (_, key) => (key === "a" ? endless() : undefined) });
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value };
  return value;
}
