import { expect, test } from "@jest/globals";
import { maskUrl } from "./maskUrl.js";

test.each([
  ["postgres://me:secret@host:5432/db", "postgres://me:***@host:5432/db"],
  ["postgresql://me:se%40cret@host/db?sslmode=require", "postgresql://me:***@host/db?sslmode=require"],
  ["postgres://me:sec@ret@host/db", "postgres://me:***@host/db"],
  ["postgres://:secret@host/db", "postgres://:***@host/db"],
  ["postgres://host/db?user=me&password=secret&x=1", "postgres://host/db?user=me&password=***&x=1"],
  ["postgres://me:se/cr?et@host/db", "postgres://me:***@host/db"],
  ["postgres://me:12#3@host/db", "postgres://me:***@host/db"],
  ["postgres://me:12/3@host:5432/db?x=1", "postgres://me:***@host:5432/db?x=1"],
  ["postgres://host:5432/db?user=a@b", "postgres://host:5432/db?user=a@b"],
  ["postgres://me@host:5432/db", "postgres://me@host:5432/db"],
  ["postgres://host:5432/db", "postgres://host:5432/db"],
  ["no url", "no url"],
])("%s is printed as %s", (url, printed) => {
  expect(maskUrl(url)).toBe(printed);
});
