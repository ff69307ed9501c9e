// Tls: from `sslmode`, `sslrootcert` and their kin, and from `database.ssl`, to what Node's TLS is given (address.ts, AD2, AD3).

import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { UsageError } from "../errors.js";
import type { SslSettings } from "../settings.js";

export type Tls = boolean | ConnectionOptions;

type Environment = Readonly<Record<string, string | undefined>>;

const FILES = { sslrootcert: "ca", sslcert: "cert", sslkey: "key" } as const;
const VARIABLES = { sslrootcert: "PGSSLROOTCERT", sslcert: "PGSSLCERT", sslkey: "PGSSLKEY" } as const;
const PARAMETERS = ["ssl", "sslmode", "uselibpqcompat", "sslpassword", ...Object.keys(FILES)];

type Mode = "disable" | "no-verify" | "verify-ca" | "verify-full";

/** The parameters without those that are read here. */
export function withoutTls(query: URLSearchParams): URLSearchParams {
  const rest = new URLSearchParams(query);
  for (const name of PARAMETERS) rest.delete(name);
  return rest;
}

/** What was asked for; undefined: nothing, so plain text. @throws UsageError INVALID_CONFIG for what contradicts itself */
export function tlsOf(
  query: URLSearchParams,
  ssl: boolean | SslSettings | undefined,
  env: Environment,
): Tls | undefined {
  const statesTls = PARAMETERS.some((name) => query.has(name));
  // libpq's variables count where neither the URL nor the configuration says anything of TLS.
  const reads = (name: keyof typeof FILES): string | undefined =>
    query.get(name) ?? (statesTls || ssl !== undefined ? undefined : env[VARIABLES[name]] || undefined);
  const files: ConnectionOptions = {};
  for (const name of ["sslrootcert", "sslcert", "sslkey"] as const) {
    const file = reads(name);
    if (file !== undefined && file !== "system") files[FILES[name]] = readText(file, name);
  }
  const passphrase = query.get("sslpassword");
  if (passphrase !== null) files.passphrase = passphrase;
  const given: SslSettings = typeof ssl === "object" ? ssl : {};
  const mode = modeOf(query, statesTls || ssl !== undefined ? {} : env, {
    hasCa: files.ca !== undefined || given.ca !== undefined,
    hasFiles: Object.keys(files).length > 0,
  });
  checkAgainst(mode, ssl);
  if (mode === undefined && ssl === undefined) return undefined;
  if (mode === "disable" || ssl === false) return false;
  return {
    ...files,
    ...(mode === "no-verify" ? { rejectUnauthorized: false } : {}),
    ...(mode === "verify-ca" ? { checkServerIdentity: () => undefined } : {}),
    ...given,
  };
}

function modeOf(
  query: URLSearchParams,
  env: Environment,
  { hasCa, hasFiles }: { hasCa: boolean; hasFiles: boolean },
): Mode | undefined {
  const stated = query.get("sslmode") ?? flagOf(query.get("ssl")) ?? (env.PGSSLMODE || undefined);
  const isLibpq = query.get("uselibpqcompat") === "true";
  switch (stated) {
    case undefined:
      return hasFiles ? "verify-full" : undefined;
    case "disable":
    case "no-verify":
    case "verify-full":
      return stated;
    case "prefer":
    case "allow":
      return isLibpq ? "no-verify" : "verify-full";
    case "require":
      // libpq: with a root certificate at hand `require` is `verify-ca`.
      return isLibpq ? (hasCa ? "verify-ca" : "no-verify") : "verify-full";
    case "verify-ca":
      return isLibpq ? "verify-ca" : "verify-full";
    default:
      throw refuse(
        `sslmode is "${stated}": expected disable, no-verify, prefer, require, verify-ca or verify-full`,
      );
  }
}

/** `ssl=true` and `ssl=0` are `pg`'s own. */
function flagOf(text: string | null): string | undefined {
  if (text === null) return undefined;
  if (text === "true" || text === "1") return "verify-full";
  return text === "false" || text === "0" ? "disable" : text;
}

/** AD2. */
function checkAgainst(mode: Mode | undefined, ssl: boolean | SslSettings | undefined): void {
  if (mode === undefined || ssl === undefined) return;
  if (ssl === false && mode !== "disable")
    throw refuse(`the URL says sslmode=${mode}, and database.ssl is false: say one of them`);
  if (ssl !== false && mode === "disable")
    throw refuse("the URL says sslmode=disable, and database.ssl is given: say one of them");
  if (typeof ssl === "object" && ssl.rejectUnauthorized === false && mode !== "no-verify")
    throw refuse(
      "the URL asks for a verified server, and database.ssl.rejectUnauthorized is false: say sslmode=no-verify if you mean it",
    );
}

function readText(file: string, name: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw refuse(`${name}: ${file} cannot be read (${(error as NodeJS.ErrnoException).code})`, error);
  }
}

function refuse(message: string, cause?: unknown): UsageError {
  return new UsageError("INVALID_CONFIG", `database.url: ${message}`, { path: "database.url", cause });
}
