import { expect, test } from "@jest/globals";
import { z } from "zod";
import { defineFsm } from "./fsm.js";
import { parseSignals } from "./signals.js";

const { runtime } = defineFsm({
  name: "approval",
  signals: { approve: z.object({ by: z.string(), level: z.number().default(1) }) },
  steps: { start: (ctx) => ctx.done() },
});

test("declared payloads are read by their schema, others as they are", () => {
  const stored = [
    { id: 1, name: "approve", payload: { by: "ada" } },
    { id: 2, name: "other", payload: 5 },
  ];
  expect(parseSignals(runtime, stored, "inbox")).toEqual([
    { id: 1, name: "approve", payload: { by: "ada", level: 1 } },
    { id: 2, name: "other", payload: 5 },
  ]);
});

test("a payload that was stored past its schema is named", () => {
  const stored = [{ id: 1, name: "approve", payload: { by: 5 } }];
  expect(() => parseSignals(runtime, stored, "awaited")).toThrow(
    expect.objectContaining({ code: "ERR_GEN_DURABLE_INVALID_PAYLOAD", path: "awaited[0].payload.by" }),
  );
});
