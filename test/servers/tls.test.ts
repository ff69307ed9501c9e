// TLS to a server with a certificate of a private authority: what is asked for is what is had, never less.

import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import { createClient } from "#core/client/client.js";
import { Connection } from "#core/database/connection.js";
import type { DatabaseSettings } from "#core/settings.js";
import { folderWith, removeFolders, runCommand } from "../cli/command.js";
import { findBinaries } from "../support/binaries.js";
import { Server } from "../support/server.js";

let folder: string;
let server: Server;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gen-durable-tls-"));
  chmodSync(folder, 0o755);
  for (const name of ["right", "wrong"]) {
    openssl(
      "req",
      "-x509",
      "-newkey",
      "rsa:2048",
      "-nodes",
      "-days",
      "2",
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.pem`,
    );
  }
  openssl(
    "req",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-subj",
    "/CN=localhost",
    "-addext",
    "subjectAltName=DNS:localhost",
    "-keyout",
    "server.key",
    "-out",
    "server.csr",
  );
  openssl(
    "x509",
    "-req",
    "-in",
    "server.csr",
    "-CA",
    "right.pem",
    "-CAkey",
    "right.key",
    "-CAcreateserial",
    "-days",
    "2",
    "-copy_extensions",
    "copy",
    "-out",
    "server.pem",
  );
  chmodSync(join(folder, "server.key"), 0o600);
  const { user } = findBinaries();
  if (user !== undefined) chownSync(join(folder, "server.key"), user.uid, user.gid);
  server = await Server.start({
    settings: {
      ssl: "on",
      ssl_cert_file: join(folder, "server.pem"),
      ssl_key_file: join(folder, "server.key"),
    },
  });
}, 60_000);
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
  removeFolders();
});

function openssl(...args: string[]): void {
  const { status, stderr } = spawnSync("openssl", args, { cwd: folder, encoding: "utf8" });
  if (status !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`);
}

const urlOf = (host: string, parameters: string): string =>
  `postgres://postgres@${host}:${server.port}/postgres${parameters === "" ? "" : `?${parameters}`}`;

async function isEncrypted(url: string, ssl?: DatabaseSettings["ssl"]): Promise<boolean> {
  const settings = { url, listenUrl: undefined, schema: "gen_durable", prepare: true, ssl };
  const connection = await Connection.open(settings, { role: "test" });
  try {
    const [row] = await connection.run<{ ssl: boolean }>({
      name: "test_ssl",
      text: "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    });
    return row?.ssl ?? false;
  } finally {
    await connection.close();
  }
}

test("verify-full with the right authority works, from the URL and from the configuration", async () => {
  const root = join(folder, "right.pem");
  expect(await isEncrypted(urlOf("localhost", `sslmode=verify-full&sslrootcert=${root}`))).toBe(true);
  expect(await isEncrypted(urlOf("localhost", ""), { ca: readFileSync(root, "utf8") })).toBe(true);
  expect(
    await isEncrypted(urlOf("127.0.0.1", "sslmode=require"), {
      ca: readFileSync(root, "utf8"),
      servername: "localhost",
    }),
  ).toBe(true);
  expect(await isEncrypted(urlOf("localhost", "sslmode=no-verify"))).toBe(true);
  expect(await isEncrypted(urlOf("localhost", "sslmode=disable"))).toBe(false);
});

test("a certificate of somebody else, or for another name, is refused, and every mode but no-verify verifies", async () => {
  const wrong = join(folder, "wrong.pem");
  for (const parameters of [
    `sslmode=verify-full&sslrootcert=${wrong}`,
    "sslmode=require",
    "sslmode=prefer",
  ]) {
    await expect(isEncrypted(urlOf("localhost", parameters))).rejects.toMatchObject({
      code: "ERR_GEN_DURABLE_TLS",
      message: expect.stringContaining("sslrootcert"),
    });
  }
  await expect(
    isEncrypted(urlOf("127.0.0.1", `sslmode=verify-full&sslrootcert=${join(folder, "right.pem")}`)),
  ).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_TLS",
    message: expect.stringContaining("another name"),
  });
});

test("a server without TLS is refused where TLS was asked for: there is no way back to plain text", async () => {
  const plain = await Server.start();
  try {
    await expect(isEncrypted(plain.url().replace(/$/, "?sslmode=prefer"))).rejects.toThrow(
      "does not support SSL",
    );
  } finally {
    await plain.stop();
  }
});

test("the command line and clients take the same settings, and say what is wrong", async () => {
  const cwd = folderWith({});
  const right = urlOf("localhost", `sslmode=verify-full&sslrootcert=${join(folder, "right.pem")}`);
  expect(await runCommand(["migrate", "--database-url", right], { cwd })).toMatchObject({ code: 0 });
  const refused = await runCommand(["status", "--database-url", urlOf("localhost", "sslmode=require")], {
    cwd,
  });
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/the database does not answer: .*certificate.*sslrootcert/s);
  const client = createClient({
    url: urlOf("localhost", ""),
    ssl: { ca: readFileSync(join(folder, "right.pem"), "utf8") },
  });
  expect(await client.list()).toMatchObject({ instances: [] });
  await client.close();
  const wrong = createClient({ url: urlOf("localhost", "sslmode=verify-full") });
  await expect(wrong.list()).rejects.toMatchObject({ code: "ERR_GEN_DURABLE_TLS" });
  await wrong.close();
});
