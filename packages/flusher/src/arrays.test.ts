import { expect, test } from "@jest/globals";
import { plainArray, textArray } from "./arrays.js";

test("texts are quoted, so that nothing in them is read as syntax", () => {
  expect(textArray(['a"b', "c\\d", "", "NULL", "{x,y}", null])).toBe(
    '{"a\\"b","c\\\\d","","NULL","{x,y}",NULL}',
  );
});

test("a column of nothing travels as the empty array", () => {
  expect(textArray([null, null])).toBe("{}");
  expect(plainArray([null])).toBe("{}");
  expect(plainArray([])).toBe("{}");
  expect(plainArray([1, null, 2.5])).toBe("{1,NULL,2.5}");
});
