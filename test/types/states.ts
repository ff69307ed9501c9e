// A state that JSON cannot hold, or that its schema would not give back, does not compile.

import { defineFsm, defineJob, type Outcome } from "gen-durable";
import { z } from "zod";
import * as mini from "zod/mini";

class Money {
  constructor(readonly cents: number) {}
  add(other: Money): Money {
    return new Money(this.cents + other.cents);
  }
}

interface Tree {
  value: number;
  children: Tree[];
}
const tree: z.ZodType<Tree, Tree> = z.lazy(() => z.object({ value: z.number(), children: z.array(tree) }));
const category = z.object({
  name: z.string(),
  get children() {
    return z.array(category);
  },
});

// What JSON holds compiles.
const everything = z.object({
  text: z.string().min(1).trim(),
  email: z.email(),
  id: z.uuid().brand<"Id">(),
  n: z.number().int().default(0),
  coerced: z.coerce.number(),
  yes: z.boolean().optional(),
  nothing: z.null(),
  maybe: z.string().nullable(),
  kind: z.enum(["a", "b"]),
  literal: z.literal(5),
  list: z.array(z.object({ a: z.string().optional() })),
  pair: z.tuple([z.string(), z.number()]),
  byName: z.record(z.string(), z.array(z.number())),
  either: z.union([z.string(), z.object({ x: z.number() })]),
  tagged: z.discriminatedUnion("type", [
    z.object({ type: z.literal("x"), x: z.number() }),
    z.object({ type: z.literal("y"), y: z.string() }),
  ]),
  anything: z.unknown(),
  json: z.json(),
  at: z.iso.datetime(),
  tree,
  category,
});
export const good = defineFsm({
  name: "good",
  state: everything,
  steps: { a: (ctx) => ctx.next("a", { ...ctx.state, n: ctx.state.n + 1 }) },
});
export const recursive = defineFsm({
  name: "tree",
  state: tree,
  steps: { a: (ctx) => ctx.done(ctx.state.children.length) },
});
export const scalar = defineFsm({
  name: "scalar",
  state: z.number(),
  steps: { a: (ctx) => ctx.next("a", ctx.state + 1) },
});
export const withMini = defineFsm({
  name: "mini",
  state: mini.object({ n: mini.number() }),
  steps: { a: (ctx) => ctx.next("a", { n: ctx.state.n + 1 }) },
});

// Each of these schemas yields what is not stored as it was given.
const steps = { a: (ctx: { stop(reason: string): Outcome }) => ctx.stop("x") };
const bad = {
  date: z.object({ at: z.date() }),
  coercedDate: z.object({ at: z.coerce.date() }),
  deepDate: z.object({ list: z.array(z.object({ at: z.date().optional() })) }),
  bigint: z.object({ n: z.bigint() }),
  map: z.object({ m: z.map(z.string(), z.number()) }),
  set: z.object({ s: z.set(z.string()) }),
  symbol: z.object({ s: z.symbol() }),
  function: z.object({ f: z.custom<() => void>() }),
  instance: z.object({ price: z.instanceof(Money) }),
  oneOfTwo: z.object({ u: z.union([z.string(), z.date()]) }),
  transform: z.object({ n: z.string().transform(Number) }),
  noSchema: { n: "number" },
};

// @ts-expect-error a Date
defineFsm({ name: "x", state: bad.date, steps });
// @ts-expect-error a Date that is made from a text
defineFsm({ name: "x", state: bad.coercedDate, steps });
// @ts-expect-error a Date deep down
defineFsm({ name: "x", state: bad.deepDate, steps });
// @ts-expect-error a bigint
defineFsm({ name: "x", state: bad.bigint, steps });
// @ts-expect-error a Map
defineFsm({ name: "x", state: bad.map, steps });
// @ts-expect-error a Set
defineFsm({ name: "x", state: bad.set, steps });
// @ts-expect-error a symbol
defineFsm({ name: "x", state: bad.symbol, steps });
// @ts-expect-error a function
defineFsm({ name: "x", state: bad.function, steps });
// @ts-expect-error an instance of a class
defineFsm({ name: "x", state: bad.instance, steps });
// @ts-expect-error a union with one bad side
defineFsm({ name: "x", state: bad.oneOfTwo, steps });
// @ts-expect-error a transform that gives back another type
defineFsm({ name: "x", state: bad.transform, steps });
// @ts-expect-error a schema of another kind
defineFsm({ name: "x", state: bad.noSchema, steps });
// @ts-expect-error a result that JSON cannot hold
defineFsm({ name: "x", result: bad.date, steps });
// @ts-expect-error a signal's payload that JSON cannot hold
defineFsm({ name: "x", signals: { go: z.bigint() }, steps });
// @ts-expect-error arguments that JSON cannot hold
defineJob({ name: "x", args: bad.date, perform: () => null });

export const accepted = defineFsm({ name: "x", steps });
