// Address: what a database's URL and libpq's variables say: which servers, in which order, and what of TLS.
// AD1  A URL may name several servers, as libpq's may: `postgres://a:5432,b:5433/app`, or PGHOST=a,b. One of them takes writes.
// AD2  TLS is never less than what was asked for: what contradicts is refused, and there is no way back to plain text.
// AD3  `prefer`, `require` and `verify-ca` verify like `verify-full`, as `pg` has it; with `uselibpqcompat=true` they mean
//      what libpq means by them.

import type pg from "pg";
import { UsageError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";
import { type Tls, tlsOf, withoutTls } from "./tls.js";

export interface ServerAddress {
  /** `host:port`, for messages. */
  readonly name: string;
  /** Undefined where `pg` finds it by itself, from a URL with one server or from libpq's variables. */
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly connectionString: string | undefined;
}

export interface Address {
  /** At least one. */
  readonly servers: readonly ServerAddress[];
  readonly tls: Tls | undefined;
  /** `connect_timeout`, where the URL states it. */
  readonly connectTimeoutMs: number | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Scheme, user and password, servers, path, query. A password may hold an @ that is not encoded. */
const PARTS = /^(postgres(?:ql)?:\/\/)(?:([^/?#]*)@)?([^/?#]*)([^?#]*)(?:\?([^#]*))?/i;
const PORT_DEFAULT = 5432;
/** Every server is asked for in this engine's own way: it needs the one that takes writes. */
const OURS = ["target_session_attrs", "load_balance_hosts", "connect_timeout", "host", "hostaddr", "port"];
const WRITES = new Set(["any", "read-write", "primary"]);

/** @throws UsageError INVALID_CONFIG where the URL, the variables or the TLS settings contradict themselves */
export function parseAddress(
  { url, ssl }: Pick<DatabaseSettings, "url" | "ssl">,
  env: Environment = process.env,
): Address {
  const parts = url === undefined ? null : PARTS.exec(url);
  if (url !== undefined && parts !== null && parts[2] === undefined) checkAccount(url);
  const query = new URLSearchParams(parts?.[5] ?? "");
  checkAttributes(query.get("target_session_attrs") ?? env.PGTARGETSESSIONATTRS);
  return {
    servers: serversOf(parts, query, env, url),
    tls: tlsOf(query, ssl, env),
    connectTimeoutMs: secondsOf(query.get("connect_timeout") ?? env.PGCONNECT_TIMEOUT),
  };
}

function serversOf(
  parts: RegExpExecArray | null,
  query: URLSearchParams,
  env: Environment,
  url: string | undefined,
): ServerAddress[] {
  const stated = query.get("host") ?? query.get("hostaddr") ?? parts?.[3] ?? "";
  const hosts = (stated === "" ? (env.PGHOST ?? env.PGHOSTADDR ?? "") : stated).split(",");
  const own = hosts.map(splitHost);
  const fromQuery = query.has("host") || query.has("hostaddr");
  const ports = portsOf(
    query.get("port") ??
      (stated === "" || fromQuery || own.every(([, port]) => port === undefined) ? env.PGPORT : undefined),
    own.length,
  );
  return own.map(([host, ownPort], index) => {
    const port = numberOf(ownPort ?? ports?.[index]);
    const name = `${host === "" ? "localhost" : host}:${port ?? PORT_DEFAULT}`;
    if (parts === null || url === undefined)
      return { name, host: host === "" ? undefined : host, port, connectionString: undefined };
    return { name, host, port, connectionString: urlOf(parts, query, { host, port }) };
  });
}

/** The URL with one server in it, and without what this file and tls.ts have read. */
function urlOf(
  parts: RegExpExecArray,
  query: URLSearchParams,
  { host, port }: { host: string; port: number | undefined },
): string {
  const [, scheme = "", account, , path = ""] = parts;
  const rest = withoutTls(query);
  for (const name of OURS) rest.delete(name);
  // A socket's folder travels as a parameter; brackets belong to the URL form of an IPv6 address.
  if (host.startsWith("/")) rest.set("host", host);
  const place = host.startsWith("/") ? "" : host.includes(":") ? `[${host}]` : host;
  const withPort = port === undefined || place === "" ? place : `${place}:${port}`;
  if (place === "" && port !== undefined) rest.set("port", String(port));
  const tail = rest.size === 0 ? "" : `?${rest}`;
  return `${scheme}${account === undefined ? "" : `${account}@`}${withPort}${path}${tail}`;
}

/** `host`, `host:port`, `[::1]:port`, `%2Fvar%2Frun`. */
function splitHost(text: string): [host: string, port: string | undefined] {
  const [, v6, name = "", port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/.exec(text.trim()) ?? [];
  // An IPv6 address in PGHOST has no brackets.
  if (v6 === undefined && name === "" && text.includes(":") && !text.startsWith(":"))
    return [text, undefined];
  if (v6 === undefined && (port ?? "").includes(":")) return [text, undefined];
  return [decodeURIComponent(v6 ?? name), port === "" ? undefined : port];
}

function portsOf(list: string | undefined | null, count: number): string[] | undefined {
  if (list === undefined || list === null || list === "") return undefined;
  const ports = list.split(",");
  if (ports.length === 1) return Array.from({ length: count }, () => list);
  if (ports.length === count) return ports;
  throw refuse(`${count} servers are named, and ${ports.length} ports`);
}

function numberOf(port: string | undefined): number | undefined {
  if (port === undefined || port === "") return undefined;
  const number = Number(port);
  if (Number.isInteger(number) && number > 0 && number < 65_536) return number;
  // Where a password was not encoded, this may be the beginning of it.
  throw refuse(
    "a server's port is no number from 1 to 65535; characters of a password that mean something in a URL are encoded there (# as %23, / as %2F, ? as %3F)",
  );
}

/** An @ behind the servers, and not in a parameter: what stands before it was meant as user and password. */
function checkAccount(url: string): void {
  if (/^[^=]*@/.test(url))
    throw refuse(
      "#, / and ? in the user or the password are encoded as %23, %2F and %3F, and @ elsewhere as %40",
    );
}

function secondsOf(text: string | undefined | null): number | undefined {
  const seconds = Number(text ?? "");
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : undefined;
}

function checkAttributes(wanted: string | undefined | null): void {
  if (wanted === undefined || wanted === null || wanted === "" || WRITES.has(wanted)) return;
  throw refuse(
    `target_session_attrs is "${wanted}": the engine writes, so it takes the primary whatever is asked for; say "read-write" or leave it out`,
  );
}

function refuse(message: string): UsageError {
  return new UsageError("INVALID_CONFIG", `database.url: ${message}`, { path: "database.url" });
}

/** What `pg` is given for one of the servers. */
export function serverConfig(address: Address, server: ServerAddress): pg.ClientConfig {
  const { connectionString, host, port } = server;
  return {
    ...(connectionString === undefined
      ? { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) }
      : { connectionString }),
    ...(address.tls === undefined ? {} : { ssl: address.tls }),
  };
}
