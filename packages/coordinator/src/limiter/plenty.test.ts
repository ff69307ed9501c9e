import { expect, test } from "@jest/globals";
import { Plenty, type PlentyAnswer } from "./plenty.js";

test("PT1: what a look has left makes it likely, and what it did not find unlikely", () => {
  const plenty = new Plenty();
  expect(plenty.isLikely).toBe(false);
  plenty.tell("left");
  expect(plenty.isLikely).toBe(true);
  plenty.tell("had");
  expect(plenty.isLikely).toBe(true);
  plenty.tell("missed");
  expect(plenty.isLikely).toBe(false);
  plenty.tell("short");
  expect(plenty.isLikely).toBe(false);
  plenty.tell("left");
  expect(plenty.isLikely).toBe(true);
});

test("PT2: misses in a row double the looks between them; a claim ends that", () => {
  const plenty = new Plenty();
  const looksUntilLikely = (answer: PlentyAnswer): number => {
    plenty.tell(answer);
    let looks = 0;
    for (; !plenty.isLikely; looks++) plenty.tell("left");
    return looks;
  };
  expect(Array.from({ length: 8 }, () => looksUntilLikely("missed"))).toEqual([1, 2, 4, 8, 16, 32, 64, 64]);
  plenty.tell("had");
  expect(looksUntilLikely("missed")).toBe(1);
});
