// Failure: what a rejected statement means for the caller. Postgres's SQLSTATE decides, never a message's text.

export type Failure =
  /** The connection is gone, or the server is starting, stopping or promoting: open another and try again. */
  | "connection"
  /** Deadlock, serialization failure, lock timeout, a cancelled query: the same transaction may succeed when it runs again. */
  | "contention"
  /** The values of some row cannot be stored: split the batch until the offender stands alone. */
  | "data"
  /** A unique index or CHECK refused: the race is lost, recompute from what is committed. */
  | "constraint"
  /** Anything else: a missing table or right, a bug. */
  | "other";

const CONTENTION = new Set(["40P01", "40001", "55P03", "57014"]);
/** Server shutting down, crash recovery, starting up, read only (a standby, or a demoted primary), too many clients, out of memory or disk. */
const CONNECTION_STATES = new Set([
  "57P01",
  "57P02",
  "57P03",
  "57P05",
  "25006",
  "53300",
  "53100",
  "53200",
  "53400",
]);
const SOCKET_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOENT",
]);

/** No server, or none that takes writes, or one whose certificate is not trusted. */
const OUR_CODES = new Set([
  "ERR_GEN_DURABLE_CONNECTION_LOST",
  "ERR_GEN_DURABLE_NO_ANSWER",
  "ERR_GEN_DURABLE_STANDBY",
  "ERR_GEN_DURABLE_NO_PRIMARY",
  "ERR_GEN_DURABLE_TLS",
]);

/** Sorts a rejected statement by what to do about it. */
export function classifyFailure(error: unknown): Failure {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== "string") return isConnectionMessage(error) ? "connection" : "other";
  if (code.startsWith("08") || CONNECTION_STATES.has(code) || SOCKET_CODES.has(code)) return "connection";
  if (OUR_CODES.has(code)) return "connection";
  if (CONTENTION.has(code)) return "contention";
  if (code.startsWith("23")) return "constraint";
  // 22: data exceptions (a NUL in text, a number out of range); 54: a value too long for an index or a row.
  if (code.startsWith("22") || code.startsWith("54")) return "data";
  return "other";
}

/** Whether the peer is gone without a word: other connections may be so too, and nobody has told them. */
export function isSilence(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "ERR_GEN_DURABLE_NO_ANSWER";
}

/** Whether the server, or a limit of the role or the database, has no room for one more connection. */
export function isCrowded(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "53300";
}

/** Whether a `pg` pool had no free connection in time: all are at other calls' work. It carries no code. */
export function isPoolBusy(error: unknown): boolean {
  const message = (error as { message?: unknown } | null)?.message;
  return message === "timeout exceeded when trying to connect";
}

/** Whether a unique index of this name refused. */
export function isUniqueViolation(error: unknown, index: string): boolean {
  const { code, constraint } = (error ?? {}) as { code?: unknown; constraint?: unknown };
  return code === "23505" && constraint === index;
}

/** `pg` rejects with plain errors when the socket ends; they carry no code. */
function isConnectionMessage(error: unknown): boolean {
  const message = (error as { message?: unknown } | null)?.message;
  return (
    typeof message === "string" &&
    /connection|timeout expired|read timeout|not queryable|socket/i.test(message)
  );
}
