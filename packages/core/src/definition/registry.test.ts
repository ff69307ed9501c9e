import { expect, test } from "@jest/globals";
import { defineFsm } from "./fsm.js";
import { DefinitionRegistry } from "./registry.js";
import type { StepContext } from "./stepContext.js";

function machine(name: string, version: number, end = "a") {
  return defineFsm({ name, version, steps: { [end]: (ctx: StepContext) => ctx.done() } });
}

test("versions of one name stand side by side, and the highest is the latest", () => {
  const registry = new DefinitionRegistry();
  const two = machine("x", 2);
  registry.add(machine("x", 10), "ten.ts");
  registry.add(two, "two.ts");
  expect(registry.get("x", 2)).toBe(two.runtime);
  expect(registry.get("x", 3)).toBeUndefined();
  expect(registry.latest("x")?.version).toBe(10);
  expect(registry.latest("y")).toBeUndefined();
  expect(registry.names()).toEqual(["x"]);
});

test("two definitions of one name and version are refused, naming both files", () => {
  const registry = new DefinitionRegistry();
  registry.add(machine("x", 1), "first.ts");
  expect(() => registry.add(machine("x", 1), "second.ts")).toThrow(
    'FSM "x" version 1 is defined in first.ts and in second.ts; give one of them another name or version',
  );
  expect(() => registry.add(machine("x", 1), "first.ts")).toThrow("twice in first.ts");
});

test("one definition may be exported by several files", () => {
  const registry = new DefinitionRegistry();
  const fsm = machine("x", 1);
  registry.add(fsm, "fsm.ts");
  registry.add(fsm, "index.ts");
  expect(registry.catalogue()).toEqual([
    {
      name: "x",
      version: 1,
      queue: "default",
      initialStep: "a",
      steps: [{ name: "a", timeoutMs: null, rerunAfterCrash: true }],
      onCancel: null,
      source: "fsm.ts",
    },
  ]);
});

test("the digest tells definitions apart, not the order or the file they came from", () => {
  const digest = (...fsms: ReturnType<typeof machine>[]) => {
    const registry = new DefinitionRegistry();
    for (const [index, fsm] of fsms.entries()) registry.add(fsm, `${index}.ts`);
    return registry.digest();
  };
  expect(digest(machine("x", 1), machine("y", 1))).toBe(digest(machine("y", 1), machine("x", 1)));
  expect(digest(machine("x", 1))).not.toBe(digest(machine("x", 2)));
  expect(digest(machine("x", 1))).not.toBe(digest(machine("x", 1, "b")));
  const other = defineFsm({ name: "x", steps: { a: (ctx) => ctx.stop("other code") } });
  expect(digest(machine("x", 1))).not.toBe(digest(other));
});
