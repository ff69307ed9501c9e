import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import { parseAddress } from "./address.js";

const serversOf = (url: string | undefined, env: Record<string, string> = {}) =>
  parseAddress({ url }, env).servers.map(({ name, connectionString }) => [name, connectionString]);

const messageOf = (act: () => unknown): string => {
  try {
    return JSON.stringify(act());
  } catch (error) {
    return String(error);
  }
};

const tlsOf = (parameters: string, ssl?: Parameters<typeof parseAddress>[0]["ssl"], env = {}) =>
  parseAddress({ url: `postgres://h/app${parameters === "" ? "" : `?${parameters}`}`, ssl }, env).tls;

describe("AD1: servers", () => {
  test("one server stays as it was written", () => {
    expect(serversOf("postgres://u:p%40@h:1/app?application_name=x")).toEqual([
      ["h:1", "postgres://u:p%40@h:1/app?application_name=x"],
    ]);
  });

  test("several servers, with and without ports of their own, an IPv6 address among them", () => {
    expect(serversOf("postgresql://u:p@a:1,b,[::1]:3/app?target_session_attrs=read-write&options=x")).toEqual(
      [
        ["a:1", "postgresql://u:p@a:1/app?options=x"],
        ["b:5432", "postgresql://u:p@b/app?options=x"],
        ["::1:3", "postgresql://u:p@[::1]:3/app?options=x"],
      ],
    );
  });

  test.each([
    ["postgres://me:s3cr#t@h:1/app", "%23"],
    ["postgres://me:123/s3cr@h/app", "%2F"],
    ["postgres://me:123?s3cr@h/app", "%3F"],
    ["postgres://h:s3cr/app", "port"],
    ["postgres://h:70000/app", "65535"],
  ])("%s is refused, says how it is written, and shows no part of a password", (url, said) => {
    const message = messageOf(() => serversOf(url));
    expect(message).toContain(said);
    expect(message).not.toMatch(/s3cr|123/);
  });

  test("an @ in a parameter is no account", () => {
    expect(serversOf("postgres://h/app?options=a@b")).toEqual([["h:5432", "postgres://h/app?options=a%40b"]]);
  });

  test("libpq's parameters and variables name servers too", () => {
    const hosts = (url: string, env = {}) => serversOf(url, env).map(([name]) => name);
    expect(hosts("postgres:///app?host=a,b&port=1,2")).toEqual(["a:1", "b:2"]);
    expect(hosts("postgres://u@/app", { PGHOST: "a,b", PGPORT: "7" })).toEqual(["a:7", "b:7"]);
    expect(parseAddress({ url: undefined }, { PGHOST: "a,b", PGPORT: "1,2" }).servers).toEqual([
      { name: "a:1", host: "a", port: 1, connectionString: undefined },
      { name: "b:2", host: "b", port: 2, connectionString: undefined },
    ]);
    expect(serversOf("postgres:///app?host=/run/postgresql")).toEqual([
      ["/run/postgresql:5432", "postgres:///app?host=%2Frun%2Fpostgresql"],
    ]);
  });

  test.each([
    ["postgres://a:1,b:x/app", "no number from 1 to 65535"],
    ["postgres:///app?host=a,b,c&port=1,2", "3 servers are named, and 2 ports"],
    ["postgres://a,b/app?target_session_attrs=standby", "takes the primary"],
    ["postgres://a/app?sslmode=maybe", 'sslmode is "maybe"'],
  ])("%s is refused", (url, message) => {
    expect(() => parseAddress({ url }, {})).toThrow(message);
  });
});

describe("AD2, AD3: TLS", () => {
  const file = join(tmpdir(), `gen-durable-ca-${process.pid}.pem`);
  writeFileSync(file, "PEM");

  test("what is not asked for is not there; what is asked for verifies", () => {
    expect(tlsOf("")).toBeUndefined();
    expect(tlsOf("sslmode=disable")).toBe(false);
    for (const mode of ["prefer", "require", "verify-ca", "verify-full"])
      expect(tlsOf(`sslmode=${mode}`)).toEqual({});
    expect(tlsOf("sslmode=no-verify")).toEqual({ rejectUnauthorized: false });
    expect(tlsOf("sslmode=require&uselibpqcompat=true")).toEqual({ rejectUnauthorized: false });
    expect(tlsOf(`sslrootcert=${file}`)).toEqual({ ca: "PEM" });
    expect(tlsOf("", true)).toEqual({});
    expect(tlsOf("", undefined, { PGSSLMODE: "verify-full", PGSSLROOTCERT: file })).toEqual({ ca: "PEM" });
  });

  test("the configuration's object goes before the URL's files", () => {
    expect(tlsOf(`sslmode=verify-full&sslrootcert=${file}`, { ca: "OTHER", servername: "db" })).toEqual({
      ca: "OTHER",
      servername: "db",
    });
  });

  test.each([
    ["sslmode=require", false],
    ["sslmode=disable", true],
    ["sslmode=verify-full", { rejectUnauthorized: false }],
    ["sslrootcert=/nowhere/ca.pem", undefined],
  ])("%s with ssl %j is refused: no silent downgrade", (parameters, ssl) => {
    expect(() => tlsOf(parameters, ssl)).toThrow(/database\.url: /);
  });
});
