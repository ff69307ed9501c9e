import { expect, test } from "@jest/globals";
import { arrayText, columnText, sparseText } from "./text.js";

test("an array's text quotes what Postgres would misread", () => {
  expect(arrayText(["a", null, "NULL", "", 'say "x"', "back\\slash", "{,}", 1.5])).toBe(
    '{"a",NULL,"NULL","","say \\"x\\"","back\\\\slash","{,}",1.5}',
  );
  expect(arrayText([])).toBe("{}");
});

test("a constant column has one element", () => {
  expect(columnText(["a", "a", "a"])).toBe('{"a"}');
  expect(columnText([3, 3])).toBe("{3}");
  expect(columnText([3, 4])).toBe("{3,4}");
});

test("a sparse column is written out, or empty when nothing is in it", () => {
  expect(sparseText([null, null])).toBe("{}");
  expect(sparseText(["a", null])).toBe('{"a",NULL}');
  expect(sparseText(["a", "a"])).toBe('{"a","a"}');
});
