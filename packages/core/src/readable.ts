// Readable: to read a user's value can run the user's code: a getter, a proxy. What that throws becomes an error that says where.

import { GenDurableError, UsageError } from "./errors.js";
import { describeError } from "./errorText.js";

/** Runs what reads a user's value. @throws UsageError UNREADABLE for whatever is not an error of ours */
export function reading<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof GenDurableError) throw error;
    throw new UsageError("UNREADABLE", `${path}: it cannot be read: ${describeError(error, 500)}`, {
      path,
      cause: error,
    });
  }
}
