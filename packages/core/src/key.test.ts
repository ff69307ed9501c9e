import { expect, test } from "@jest/globals";
import { joinKey, nameOfKey } from "./key.js";

test("INS-23: a name with a partition is stored with a colon, a name alone as it is", () => {
  expect(joinKey("stripe", "key")).toBe("stripe");
  expect(joinKey(["stripe", 42], "key")).toBe("stripe:42");
  expect(joinKey(["stripe", "acme", 7n], "key")).toBe("stripe:acme:7");
  expect(joinKey("account:7", "key")).toBe("account:7");
  expect(nameOfKey("stripe:a:b")).toBe("stripe");
  expect(nameOfKey("stripe")).toBe("stripe");
});

test.each([
  ["", "key"],
  [42, "key"],
  [null, "key"],
  [["stripe"], "key"],
  [[], "key"],
  [["", 1], "key[0]"],
  [[1, 2], "key[0]"],
  [["a:b", 1], "key[0]"],
  [["a", ""], "key[1]"],
  [["a", Number.NaN], "key[1]"],
  [["a", 1, undefined], "key[2]"],
  [["a", "x".repeat(511)], "key"],
  ["é".repeat(257), "key"],
  ["a\0", "key"],
])("%j is no key", (key, path) => {
  expect(() => joinKey(key, "key")).toThrow(
    expect.objectContaining({ code: expect.stringMatching(/_INVALID_(KEY|NAME)$/), path }),
  );
});

test("a key of 512 bytes is the longest", () => {
  expect(joinKey("é".repeat(256), "key")).toHaveLength(256);
});
