import { afterEach, beforeEach, expect, jest, test } from "@jest/globals";
import { DUE_HORIZON_MS, decodePoke, encodeDues, encodePoke, PokeGate, pokeChannel } from "./poke.js";

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

function gate(): { gate: PokeGate; sent: string[][] } {
  const sent: string[][] = [];
  return {
    gate: new PokeGate({ send: (payloads) => sent.push([...payloads]), nowMs: () => Date.now() }),
    sent,
  };
}

test("a payload says which queue, and when", () => {
  expect(encodePoke({ type: "due", queue: "default", dueInMs: 0 })).toBe("default");
  expect(encodePoke({ type: "due", queue: "default", dueInMs: 12.2 })).toBe("default\t13");
  expect(encodePoke({ type: "cancel", id: 7 })).toBe("\tcancel\t7");
  for (const poke of [
    { type: "due", queue: "default", dueInMs: 0 },
    { type: "due", queue: "a\tb", dueInMs: 0 },
    { type: "due", queue: "a\t5", dueInMs: 40 },
    { type: "cancel", id: 12 },
  ] as const) {
    expect(decodePoke(encodePoke(poke))).toEqual(poke);
  }
});

test("a payload that is not ours is nothing", () => {
  for (const payload of ["", "\t5", "default\tsoon", "default\t", "default\t-1"])
    expect(decodePoke(payload)).toBeUndefined();
});

test("a schema has one channel, whatever its name", () => {
  expect(pokeChannel("gen_durable")).toMatch(/^gen_durable_[0-9a-f]{16}$/);
  expect(pokeChannel('a "quoted" schema')).not.toBe(pokeChannel("gen_durable"));
});

test("K1: the first poke of a burst goes out at once, what follows it waits for the window's end", () => {
  const { gate: pokes, sent } = gate();
  const first = pokes.sort([{ queue: "a", dueInMs: 0 }]);
  expect(first).toEqual({ now: [{ queue: "a", dueInMs: 0 }], later: [] });
  for (let n = 0; n < 4; n++) {
    jest.advanceTimersByTime(2);
    const next = pokes.sort([{ queue: "a", dueInMs: 0 }]);
    expect(next.now).toEqual([]);
    pokes.owe(next.later);
  }
  jest.advanceTimersByTime(1);
  expect(sent).toEqual([]);
  jest.advanceTimersByTime(1);
  expect(sent).toEqual([["a"]]);
  jest.advanceTimersByTime(1_000);
  expect(sent).toEqual([["a"]]);
});

test("K3: work some tens of milliseconds apart is told at once, each time; a stream at most every 100 ms", () => {
  const { gate: pokes, sent } = gate();
  for (let n = 0; n < 20; n++) {
    expect(pokes.sort([{ queue: "a", dueInMs: 0 }]).now).toHaveLength(1);
    jest.advanceTimersByTime(20);
  }
  let now = 0;
  const stream = (ms: number): void => {
    now = 0;
    sent.length = 0;
    for (let n = 0; n < ms; n++) {
      const next = pokes.sort([{ queue: "a", dueInMs: 0 }]);
      now += next.now.length;
      pokes.owe(next.later);
      jest.advanceTimersByTime(1);
    }
  };
  stream(1_000);
  stream(1_000);
  expect(now + sent.length).toBeLessThanOrEqual(10);
  jest.advanceTimersByTime(250);
  expect(pokes.sort([{ queue: "a", dueInMs: 0 }]).now).toHaveLength(1);
  jest.advanceTimersByTime(10);
  expect(pokes.isOpen("a")).toBe(true);
});

test("K3: work a few milliseconds too close once, as on a busy machine, does not hold back what comes every 20 ms after it", () => {
  const { gate: pokes, sent } = gate();
  const insert = (): void => pokes.owe(pokes.sort([{ queue: "a", dueInMs: 0 }]).later);
  for (let n = 0; n < 200; n++) {
    insert();
    jest.advanceTimersByTime(1);
  }
  jest.advanceTimersByTime(100);
  for (let n = 0; n < 20; n++) {
    insert();
    jest.advanceTimersByTime(n % 5 === 0 ? 5 : 20);
  }
  sent.length = 0;
  let waitedMs = 0;
  for (let n = 0; n < 20; n++) {
    jest.advanceTimersByTime(20);
    if (!pokes.isOpen("a")) waitedMs += 20;
    insert();
  }
  expect(waitedMs).toBe(0);
});

test("K2: a poke that the window holds back is sent when the gate closes", () => {
  const { gate: pokes, sent } = gate();
  pokes.sort([{ queue: "a", dueInMs: 0 }]);
  pokes.owe(pokes.sort([{ queue: "a", dueInMs: 0 }]).later);
  pokes.close();
  expect(sent).toEqual([["a"]]);
});

test("every queue has a window of its own, and one statement pokes each queue once", () => {
  const { gate: pokes } = gate();
  const { now } = pokes.sort([
    { queue: "a", dueInMs: 0 },
    { queue: "b", dueInMs: 0 },
    { queue: "a", dueInMs: 0 },
  ]);
  expect(encodeDues(now)).toEqual(["a", "b"]);
});

test("work due past the horizon pokes nobody, sooner work says in how many milliseconds", () => {
  const { gate: pokes } = gate();
  expect(pokes.sort([{ queue: "a", dueInMs: DUE_HORIZON_MS + 1 }])).toEqual({ now: [], later: [] });
  expect(encodeDues(pokes.sort([{ queue: "a", dueInMs: 400 }]).now)).toEqual(["a\t400"]);
  expect(encodeDues(pokes.sort([{ queue: "a", dueInMs: 0 }]).now)).toEqual(["a"]);
});

test("a held-back poke for work that is due inside the window goes out when it is due", () => {
  const { gate: pokes, sent } = gate();
  pokes.sort([{ queue: "a", dueInMs: 400 }]);
  pokes.owe([{ queue: "a", dueInMs: 50 }]);
  jest.advanceTimersByTime(49);
  expect(sent).toEqual([]);
  jest.advanceTimersByTime(1);
  expect(sent).toEqual([["a"]]);
});

test("K1: a poke whose statement wrote nothing does not close the window", () => {
  const { gate: pokes, sent } = gate();
  const first = pokes.sort([{ queue: "a", dueInMs: 0 }]);
  pokes.owe(pokes.sort([{ queue: "a", dueInMs: 0 }]).later);
  pokes.unsent(first.now);
  jest.advanceTimersByTime(0);
  expect(sent).toEqual([["a"]]);
  jest.advanceTimersByTime(100);
  const second = pokes.sort([{ queue: "a", dueInMs: 0 }]);
  pokes.unsent(second.now);
  expect(pokes.sort([{ queue: "a", dueInMs: 0 }]).now).toHaveLength(1);
});
