// ConnectionError: what people read when a database cannot be connected to: why, what to do, and which one it was.

import { adviceFor, messageOf } from "#core/database/advice.js";
import { classifyFailure } from "#core/database/failure.js";
import { GenDurableError } from "#core/errors.js";

/** `database`: which one it is and where its name comes from, without a password. */
export function connectionError(error: unknown, database: string): Error {
  // Contradictions in a URL are the configuration's; they name their place.
  if (error instanceof GenDurableError && error.kind === "usage") return error;
  const what =
    classifyFailure(error) === "connection"
      ? "the database does not answer"
      : "the database refuses the connection";
  const advice = adviceFor(error);
  const message = messageOf(error);
  const hint = advice === undefined || message.includes(advice) ? "" : `\n  ${advice}`;
  return new Error(`${what}: ${message}\n  it is ${database}${hint}`, { cause: error });
}
