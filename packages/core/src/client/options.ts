// Options: what createClient takes, checked when the client is made.

import { z } from "zod";
import type { SslConfig } from "../config/config.js";
import { sslShape } from "../config/configShape.js";
import { UsageError } from "../errors.js";
import { DURATION_MS_MAX } from "../name.js";
import { joinPath } from "../plain.js";
import { reading } from "../readable.js";
import { CHUNK_ROWS_MAX } from "./insert.js";
import type { InsertBatcher } from "./insertBuffer.js";
import { SCHEMA_DEFAULT } from "./locate.js";
import type { PokeTransport } from "./poker.js";
import type { PgPool } from "./session.js";

/** Bytes of one JSON value (a state, a payload) unless the options say otherwise. */
export const PAYLOAD_BYTES_MAX_DEFAULT = 4 * 1024 * 1024;

export interface ClientOptions {
  /** A `postgres://` URL. Without it and without `pool`: GEN_DURABLE_DATABASE_URL, DATABASE_URL, PG*, the folder's server. */
  url?: string | undefined;
  /** A `pg` pool of the caller's. It is used as it is and never closed. */
  pool?: PgPool | undefined;
  /** The schema of the engine's tables; absent: GEN_DURABLE_SCHEMA, else `gen_durable`. */
  schema?: string | undefined;
  /**
   * Named prepared statements; false behind a pooler that cannot keep them. Absent: GEN_DURABLE_PREPARE or the config file that
   * names the database, else true for a pool of the client's own and false for a given one.
   */
  prepare?: boolean | undefined;
  /** TLS beyond what `url` says of it, as `database.ssl` in the config file. Not for a given pool. */
  ssl?: boolean | SslConfig | undefined;
  /** How nodes hear of new work: `postgres` NOTIFY (default), `local` to this process only, `none`: they poll. */
  poke?: PokeTransport | undefined;
  /** Bytes of one JSON value; absent: 4 MiB. Not above the nodes' own limit. */
  maxPayloadBytes?: number | undefined;
  /** How `insertAsync` gathers rows; false: it writes each at once. Absent: as the config file says, where no `url` and no `pool` is given; else false. */
  insertBatcher?: InsertBatcher | false | undefined;
  /** `waitFor` asks the database once a tick for all its callers; absent: every 25 ms. */
  wait?: { tickMs?: number | undefined } | undefined;
}

export interface CheckedOptions {
  url: string | undefined;
  pool: PgPool | undefined;
  schema: string;
  prepare: boolean | undefined;
  ssl: boolean | SslConfig | undefined;
  poke: PokeTransport;
  maxPayloadBytes: number;
  /** Undefined: nobody has said. */
  insertBatcher: InsertBatcher | false | undefined;
  tickMs: number;
}

const shape = z.strictObject({
  url: z.string().min(1).optional(),
  pool: z
    .custom<PgPool>(
      (pool) => hasMethod(pool, "query") && hasMethod(pool, "connect"),
      "expected a pg pool: an object with query and connect",
    )
    .optional(),
  schema: z
    .string()
    .min(1)
    .refine(
      (name) => Buffer.byteLength(name) <= 63 && !name.includes("\0"),
      "expected at most 63 bytes and no NUL",
    )
    .optional(),
  prepare: z.boolean().optional(),
  ssl: sslShape.optional(),
  poke: z.enum(["postgres", "local", "none"]).optional(),
  maxPayloadBytes: z
    .number()
    .int()
    .min(1)
    .max(256 * 1024 * 1024)
    .optional(),
  insertBatcher: z
    .union([
      z.literal(false),
      z.strictObject({
        maxRows: z.number().int().min(1).max(CHUNK_ROWS_MAX).optional(),
        maxDelayMs: z.number().min(0).max(60_000).optional(),
        maxBuffered: z.number().int().min(0).max(1_000_000).optional(),
      }),
    ])
    .optional(),
  wait: z.strictObject({ tickMs: z.number().min(1).max(DURATION_MS_MAX).optional() }).optional(),
});

/** Checks the options and fills in defaults. @throws UsageError INVALID_OPTION with the path of what is wrong */
export function checkClientOptions(
  options: ClientOptions,
  env: Readonly<Record<string, string | undefined>>,
): CheckedOptions {
  const parsed = reading("options", () => {
    const answer = shape.safeParse(options);
    // zod words its error when it is first read, and looks at the value again for it.
    return answer.success ? answer : { success: false as const, issue: answer.error.issues[0] };
  });
  if (!parsed.success) {
    const { issue } = parsed;
    const path = joinPath("", issue?.path ?? []);
    throw new UsageError(
      "INVALID_OPTION",
      `${path === "" ? "options" : path}: ${issue?.message ?? "invalid"}`,
      {
        path,
      },
    );
  }
  const { url, pool, schema, prepare, ssl, poke, maxPayloadBytes, insertBatcher, wait } = parsed.data;
  if (url !== undefined && pool !== undefined)
    throw new UsageError("INVALID_OPTION", "url and pool exclude each other; give one of them", {
      path: "pool",
    });
  if (ssl !== undefined && pool !== undefined)
    throw new UsageError("INVALID_OPTION", "ssl: a given pool has its own; leave it out", { path: "ssl" });
  return {
    url,
    pool,
    schema: schema ?? (env.GEN_DURABLE_SCHEMA || SCHEMA_DEFAULT),
    prepare,
    ssl,
    poke: poke ?? "postgres",
    maxPayloadBytes: maxPayloadBytes ?? PAYLOAD_BYTES_MAX_DEFAULT,
    insertBatcher,
    tickMs: wait?.tickMs ?? 25,
  };
}

function hasMethod(value: unknown, name: string): boolean {
  return typeof value === "object" && value !== null && typeof Reflect.get(value, name) === "function";
}
