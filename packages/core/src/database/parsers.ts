// Parsers: how the engine's clients read values. Handed to each client, never set globally (connection.ts, D2).

import pg from "pg";
import { InvariantError } from "../errors.js";

const INT8 = 20;
const JSONB = 3802;
const JSON_TYPE = 114;
const INT8_ARRAY = 1016;

/** How the engine's clients parse values; handed to each client, never set globally. */
export const engineTypes = { getTypeParser: typeParser } as pg.CustomTypesConfig;

/** `bigint` becomes a number and is refused past 2^53; `jsonb` stays text; everything else is `pg`'s own. */
function typeParser(oid: number, format?: "text" | "binary"): unknown {
  switch (oid) {
    case INT8:
      return parseBigint;
    case JSONB:
    case JSON_TYPE:
      return (text: string) => text;
    case INT8_ARRAY:
      return (text: string) => (text === "{}" ? [] : text.slice(1, -1).split(",").map(parseBigint));
    default:
      return pg.types.getTypeParser(oid, format as "text");
  }
}

function parseBigint(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new InvariantError(`the database holds ${text}, which a JavaScript number cannot`);
  return value;
}
