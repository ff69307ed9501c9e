// Advice: what an error of the database or of its connection asks its reader to do. By SQLSTATE or Node's code, never by text.

const TLS_CODES = new Set([
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
  "CERT_REJECTED",
  "CERT_REVOKED",
  "INVALID_CA",
]);

const POOLER =
  "named prepared statements are lost or taken: the database is behind a pooler in transaction mode; set `database.prepare: false` (GEN_DURABLE_PREPARE=false, or `prepare: false` of createClient)";

const ADVICE: Readonly<Record<string, string>> = {
  "26000": POOLER,
  "42P05": POOLER,
  "25006":
    "the server takes no writes: a standby, or a database that is set to read-only (some providers do so when the disk is full)",
  "28P01": "check the user and the password",
  "28000": "check the user, and the server's pg_hba.conf",
  "3D000": "create the database, or name another one",
  "42501":
    "the role lacks a right: `gen-durable grants <role>`, run as the schema's owner, prints what it needs; where it may not create, run `gen-durable migrate` as the owner and `start` with --no-migrate",
  "42P01": "run `gen-durable migrate`",
  "3F000": "run `gen-durable migrate`",
  "53100": "the server's disk is full: nothing can be written until there is room",
  "53200": "the server is out of memory",
  "53300":
    "the server has no free connection: raise its max_connections, or have fewer nodes, queues, flushers or client pools",
  "57P03": "the server is starting up, shutting down or recovering",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "the server's certificate is for another name: connect by the name that it is for, or state it in database.ssl.servername",
  CERT_HAS_EXPIRED: "the server's certificate has expired",
};

const UNTRUSTED =
  "the server's certificate is signed by nobody who is trusted: name its authority with sslrootcert=<file> in the URL, or in database.ssl.ca";

/** One clear sentence, or undefined where the error says all there is to say. */
export function adviceFor(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  if (typeof code !== "string") return undefined;
  if (TLS_CODES.has(code)) return UNTRUSTED;
  return Object.hasOwn(ADVICE, code) ? ADVICE[code] : undefined;
}

/** The error's message, with what to do about it. */
export function messageWithAdvice(error: unknown): string {
  const message = messageOf(error);
  const advice = adviceFor(error);
  return advice === undefined || message.includes(advice) ? message : `${message} (${advice})`;
}

/** What is told of a connection that is lost or cannot be opened. */
export function lossOf(error: unknown): { message: string; code?: string } {
  const code = (error as { code?: unknown } | null)?.code;
  return { message: messageWithAdvice(error), ...(typeof code === "string" ? { code } : {}) };
}

/** A refused connection to several addresses of one name arrives as an error without a message of its own. */
export function messageOf(error: unknown): string {
  const { message, errors, name, code } = (error ?? {}) as Record<string, unknown>;
  if (typeof message === "string" && message !== "") return message;
  if (Array.isArray(errors) && errors.length > 0) return [...new Set(errors.map(messageOf))].join("; ");
  return String(code ?? name ?? error);
}

/** Whether Node refused the server's certificate. */
export function isTlsRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return (
    typeof code === "string" &&
    (TLS_CODES.has(code) || code === "ERR_TLS_CERT_ALTNAME_INVALID" || code === "CERT_HAS_EXPIRED")
  );
}

/** Whether a named prepared statement was lost or is taken: only a pooler does that to us. */
export function isPoolerCollision(error: unknown): boolean {
  return ADVICE[String((error as { code?: unknown } | null)?.code)] === POOLER;
}
