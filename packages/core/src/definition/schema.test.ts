import { expect, test } from "@jest/globals";
import { z } from "zod";
import { absentValue, encodeHandedOver, encodeInput, parseBy } from "./schema.js";

const use = { path: "state", code: "INVALID_STATE", maxBytes: 1_000 };
const refused = (code: string, path: string) =>
  expect.objectContaining({ code: `ERR_GEN_DURABLE_${code}`, path });

test("an input is stored with the schema's defaults", () => {
  const schema = z.object({ target: z.number().default(0), name: z.string().optional() });
  expect(encodeInput(schema, { target: 3 }, use)).toBe('{"target":3}');
  expect(encodeInput(schema, absentValue(schema), use)).toBe('{"target":0}');
  expect(encodeInput(z.number().default(7), absentValue(z.number().default(7)), use)).toBe("7");
});

test("an input of the wrong shape is refused at its path", () => {
  const schema = z.object({ items: z.array(z.object({ n: z.number() })), b: z.string() });
  expect(() => encodeInput(schema, { items: [{ n: 1 }, { n: "x" }], b: 1 }, use)).toThrow(
    refused("INVALID_STATE", "state.items[1].n"),
  );
  expect(() => encodeInput(schema, { items: [{ n: "x" }], b: 1 }, use)).toThrow(
    /state\.items\[0\]\.n: .*; state\.b: /,
  );
});

test("S1: a schema that does not give back what it was given is refused", () => {
  const length = z.object({ name: z.string().transform((name) => name.length) });
  expect(() => encodeInput(length, { name: "abc" }, use)).toThrow(refused("UNSTABLE_SCHEMA", "state.name"));
  const growing = z.object({ n: z.number().transform((n) => n + 1) });
  expect(() => encodeInput(growing, { n: 1 }, use)).toThrow(refused("UNSTABLE_SCHEMA", "state.n"));
  const date = z.object({ at: z.date() });
  expect(() => encodeInput(date, { at: new Date() }, use)).toThrow(refused("UNSTORABLE", "state.at"));
  const coerced = z.object({ at: z.coerce.date() });
  expect(() => encodeInput(coerced, { at: "2030-01-01" }, use)).toThrow(refused("UNSTORABLE", "state.at"));
});

test("S1: a change that the schema repeats is none", () => {
  const schema = z.object({ email: z.string().toLowerCase(), n: z.coerce.number() });
  expect(encodeInput(schema, { email: "A@B.C", n: "5" }, use)).toBe('{"email":"a@b.c","n":5}');
});

test("S2: what a step hands over is stored whole, or refused at the place that would be lost", () => {
  const schema = z.object({
    a: z.number(),
    b: z.number().default(1),
    inner: z.object({ c: z.string().trim() }),
  });
  expect(encodeHandedOver(schema, { a: 1, b: 2, inner: { c: "x" } }, use)).toBe(
    '{"a":1,"b":2,"inner":{"c":"x"}}',
  );
  expect(encodeHandedOver(schema, { a: 1, inner: { c: "x" } }, use)).toBe('{"a":1,"b":1,"inner":{"c":"x"}}');
  expect(() => encodeHandedOver(schema, { a: 1, b: 2, inner: { c: "x" }, extra: 1 }, use)).toThrow(
    refused("UNSTABLE_SCHEMA", "state.extra"),
  );
  expect(() => encodeHandedOver(schema, { a: 1, b: 2, inner: { c: " x" } }, use)).toThrow(
    refused("UNSTABLE_SCHEMA", "state.inner.c"),
  );
});

test("a schema that throws, or checks asynchronously, is refused as such", () => {
  const asynchronous = z.object({ a: z.string().refine(async () => true) });
  expect(() => parseBy(asynchronous, { a: "x" }, use)).toThrow(refused("SCHEMA_THREW", "state"));
  const throwing = z.string().transform(() => {
    throw new Error("boom");
  });
  expect(() => parseBy(throwing, "x", use)).toThrow(refused("SCHEMA_THREW", "state"));
});

test("a schema of zod/mini serves as well", async () => {
  const mini = await import("zod/mini");
  expect(encodeInput(mini.object({ n: mini.number() }), { n: 1 }, use)).toBe('{"n":1}');
});
