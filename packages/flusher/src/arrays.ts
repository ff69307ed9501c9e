// Arrays: batches travel to Postgres as array literals, one a column, and are unnested there.
// A column in which every entry is NULL travels as the empty array: unnest fills the shorter arrays with NULL.

type Scalar = string | number | boolean | null;

/** The literal of a `text[]`. */
export function textArray(values: readonly (string | null)[]): string {
  return literal(values, quote);
}

/** The literal of an `int[]`, `bigint[]`, `float8[]` or `boolean[]`. */
export function plainArray(values: readonly (number | boolean | null)[]): string {
  return literal(values, String);
}

function literal<T extends Scalar>(values: readonly (T | null)[], format: (value: T) => string): string {
  let text = "{";
  let nulls = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] ?? null;
    if (i > 0) text += ",";
    if (value === null) nulls++;
    text += value === null ? "NULL" : format(value);
  }
  return nulls === values.length ? "{}" : `${text}}`;
}

function quote(value: string): string {
  return `"${/["\\]/.test(value) ? value.replace(/["\\]/g, "\\$&") : value}"`;
}
