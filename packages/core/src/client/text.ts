// Text: how the client's values travel. Every parameter is text or null and every column comes back as text, so a
// statement means the same through any pool, type parser, pooler or transaction object that a caller hands over.

import { InvariantError } from "../errors.js";

/** A parameter of a client statement. */
export type Param = string | null;

/** A row of a client statement. */
export type TextRow = Record<string, string | null>;

/** Writes a Postgres array as text: `{"a",NULL}`. */
export function arrayText(values: readonly (string | number | null)[]): string {
  let text = "{";
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ",";
    const value = values[index] ?? null;
    text += value === null ? "NULL" : typeof value === "number" ? value : quoted(value);
  }
  return `${text}}`;
}

/**
 * Writes a column of a batch as an array's text. A column that is the same in every row has one element: the statement
 * gives it to the rest (`sql/client/insert_*.sql`). Only for columns in which no value is NULL.
 */
export function columnText(values: readonly (string | number)[]): string {
  const [first] = values;
  for (const value of values) if (value !== first) return arrayText(values);
  return first === undefined ? "{}" : arrayText([first]);
}

/** Writes a column in which values may be missing; without any it is an empty array, which reads as NULL in every row. */
export function sparseText(values: readonly (string | number | null)[]): string {
  for (const value of values) if (value !== null) return arrayText(values);
  return "{}";
}

/** An id as a number. @throws InvariantError past 2^53 */
export function readId(text: string | null | undefined): number {
  const id = Number(text);
  if (text === null || text === undefined || !Number.isSafeInteger(id))
    throw new InvariantError(`the database answered ${text} where an id was expected`);
  return id;
}

function quoted(value: string): string {
  return /["\\]/.test(value) ? `"${value.replaceAll(/["\\]/g, "\\$&")}"` : `"${value}"`;
}
