import { expect, test } from "@jest/globals";
import { nearest, suggest } from "./name.js";

test("the nearest name is suggested when it is near", () => {
  const allowed = ["queues", "workers", "database"];
  expect(nearest("queus", allowed)).toBe("queues");
  expect(nearest("WORKER", allowed)).toBe("workers");
  expect(nearest("zzzzzz", allowed)).toBeUndefined();
  expect(suggest("databse", allowed)).toBe('; did you mean "database"?');
  expect(suggest("x", [])).toBe("");
});
