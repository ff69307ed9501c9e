// The embedded server's protocol (packages/cli/src/embedded/), with real processes.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { afterAll, afterEach, expect, jest, test } from "@jest/globals";
import pg from "pg";
import { findEmbedded, stopEmbedded } from "#cli/embedded/attach.js";
import {
  AttachedProcess,
  attach,
  cleanUp,
  endUsers,
  newFolder,
  pidFile,
  serverPid,
} from "./attachedProcess.js";

jest.setTimeout(60_000);
// What a failed test leaves must not fail the next ones.
afterEach(() => endUsers(folder));
afterAll(async () => {
  for (const parent of parents) parent.kill();
  await cleanUp();
});

const parents = new Set<ChildProcess>();
const folder = newFolder();
const isRoot = process.getuid?.() === 0;

test("E4: of six processes that start on an empty folder one makes the server, and all use it", async () => {
  const six = Array.from({ length: 6 }, () => new AttachedProcess(folder));
  const events = await Promise.all(six.map((it) => it.event("attached")));
  expect(new Set(events.map(({ url }) => url)).size).toBe(1);
  expect(readdirSync(join(folder, ".gen-durable")).sort()).toEqual([".gitignore", "postgres"]);
  await Promise.all(six.map((it) => it.release()));
  expect(serverPid(folder)).toBeUndefined();
});

test("the server listens on loopback only, asks for a password, and keeps its durability", async () => {
  const user = await attach(folder);
  const { url = "" } = await user.event("attached");
  expect(new URL(url).hostname).toBe("127.0.0.1");
  expect(statSync(join(folder, ".gen-durable/postgres/password")).mode & 0o777).toBe(0o600);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const settings = await client.query(
    "SELECT name, setting FROM pg_settings WHERE name = ANY ($1) ORDER BY name",
    [["fsync", "full_page_writes", "listen_addresses", "synchronous_commit", "unix_socket_directories"]],
  );
  await client.end();
  expect(settings.rows.map(({ name, setting }) => `${name}=${setting}`)).toEqual([
    "fsync=on",
    "full_page_writes=on",
    "listen_addresses=127.0.0.1",
    "synchronous_commit=on",
    "unix_socket_directories=",
  ]);
  const stranger = new pg.Client({ connectionString: url.replace(/:[^:@]+@/, ":wrong@") });
  await expect(stranger.connect()).rejects.toThrow("password authentication failed");
  await user.release();
});

test("E2: the server stays while somebody uses it, and ends with the last", async () => {
  const first = await attach(folder);
  const second = await attach(folder);
  const pid = serverPid(folder);
  await first.release();
  expect(serverPid(folder)).toBe(pid);
  await second.release();
  expect(serverPid(folder)).toBeUndefined();
});

test("SIGKILL of the last user leaves a server that the next one joins and ends", async () => {
  const killed = await attach(folder);
  const pid = serverPid(folder);
  await killed.kill();
  const next = await attach(folder);
  expect(serverPid(folder)).toBe(pid);
  await next.release();
  expect(serverPid(folder)).toBeUndefined();
});

test("Ctrl-C reaches the user's process group and not the server", async () => {
  const user = await attach(folder, { ownGroup: true });
  const pid = serverPid(folder);
  process.kill(-user.pid, "SIGINT");
  await user.ended;
  const next = await attach(folder);
  expect(serverPid(folder)).toBe(pid);
  await next.release();
});

test("E5: users bring a killed postmaster back, on the same port", async () => {
  const users = await Promise.all(Array.from({ length: 6 }, () => attach(folder)));
  const before = serverPid(folder);
  process.kill(Number(before), "SIGKILL");
  for (const user of users) user.say("ensure");
  const urls = await Promise.all(users.map(async (user) => (await user.event("running")).url));
  await Promise.all(users.map((user) => user.event("report", "the embedded Postgres is back")));
  expect(new Set(urls).size).toBe(1);
  expect(urls[0]).toBe((await users[0]?.event("attached"))?.url);
  expect(serverPid(folder)).not.toBe(before);
  await Promise.all(users.map((user) => user.release()));
  expect(serverPid(folder)).toBeUndefined();
});

test("SIGKILL of the postmaster and of its only user does not block the next start", async () => {
  const user = await attach(folder);
  process.kill(Number(serverPid(folder)), "SIGKILL");
  await user.kill();
  const next = await attach(folder);
  await next.release();
});

test.each([
  ["a process that is gone", () => 2 ** 22 + 1],
  ["a process that is no postgres", () => process.pid],
  ["a killed postgres that nobody has waited for", zombiePostgres],
])("a pid file of %s does not block the start", async (_, find) => {
  const pid = await find();
  writeFileSync(
    pidFile(folder),
    `${pid}\n${dirname(pidFile(folder))}\n1700000000\n15432\n\n127.0.0.1\n\nready   \n`,
  );
  chmodSync(pidFile(folder), 0o644);
  const user = await attach(folder);
  expect(serverPid(folder)).not.toBe(pid);
  await user.release();
});

test("a port that somebody else has taken is given up for another", async () => {
  const taken = Number(readFileSync(join(folder, ".gen-durable/postgres/port"), "utf8"));
  const squatter = createServer();
  await new Promise<void>((listening) => squatter.listen(taken, "127.0.0.1", listening));
  const user = await attach(folder);
  const { url = "" } = await user.event("attached");
  expect(Number(new URL(url).port)).not.toBe(taken);
  await user.release();
  await new Promise((closed) => squatter.close(closed));
});

test("stopping refuses while the server is used; by force its users wait until a command starts it again", async () => {
  const user = await attach(folder);
  expect(await stopEmbedded(folder)).toEqual({ stopped: false, reason: "in_use", users: 1 });
  expect(await stopEmbedded(folder, { force: true })).toEqual({ stopped: true });
  await user.event("report", "the embedded Postgres is gone; starting it again");
  expect(findEmbedded(folder)).toBeUndefined();
  expect(await stopEmbedded(folder)).toEqual({ stopped: false, reason: "not_running" });
  const next = await attach(folder);
  await user.event("report", "the embedded Postgres is back");
  await next.release();
  await user.release();
  expect(serverPid(folder)).toBeUndefined();
});

test("a password that is gone or wrong is named", async () => {
  const file = join(folder, ".gen-durable/postgres/password");
  const password = readFileSync(file, "utf8");
  writeFileSync(file, "wrong\n");
  expect(await refusal(folder)).toMatchObject({ code: "ERR_GEN_DURABLE_EMBEDDED_PASSWORD" });
  rmSync(file);
  const gone = await refusal(folder);
  expect(gone.code).toBe("ERR_GEN_DURABLE_EMBEDDED_PASSWORD");
  expect(gone.message).toContain(file);
  writeFileSync(file, password, { mode: 0o600 });
});

test("a server that cannot start is reported with its own log", async () => {
  const file = join(folder, ".gen-durable/postgres/data/postgresql.auto.conf");
  const settings = readFileSync(file, "utf8");
  writeFileSync(file, `${settings}\nno_such_setting = 1\n`);
  await stopEmbedded(folder, { force: true });
  const failed = await refusal(folder);
  expect(failed.code).toBe("ERR_GEN_DURABLE_EMBEDDED_START");
  expect(failed.message).toContain("no_such_setting");
  writeFileSync(file, settings);
});

test("data of another Postgres version are refused, and left alone", async () => {
  const file = join(folder, ".gen-durable/postgres/data/PG_VERSION");
  const version = readFileSync(file, "utf8");
  writeFileSync(file, "12\n");
  const refused = await refusal(folder);
  expect(refused.code).toBe("ERR_GEN_DURABLE_EMBEDDED_VERSION");
  expect(refused.message).toMatch(/made by Postgres 12, and this gen-durable brings Postgres \d+/);
  writeFileSync(file, version);
});

(isRoot ? test : test.skip)(
  "root's closed folder: the data lie where the server's user can enter",
  async () => {
    const closed = newFolder(0o700);
    const user = await attach(closed);
    const { place = "" } = await user.event("attached");
    try {
      expect(place).toMatch(
        /^\/var\/lib\/gen-durable\/.*\(Postgres runs as postgres, who cannot enter .*\)$/,
      );
      expect(existsSync(join(closed, ".gen-durable"))).toBe(false);
    } finally {
      await user.release();
      rmSync(dirname(place.split(" ")[0] ?? ""), { recursive: true, force: true });
    }
  },
);

(isRoot ? test : test.skip)("a folder that the user cannot write is named", async () => {
  const foreign = newFolder();
  const nobody = 65_534;
  const refused = await refusal(foreign, nobody);
  expect(refused.code).toBe("ERR_GEN_DURABLE_EMBEDDED_FOLDER");
  expect(refused.message).toContain(join(foreign, ".gen-durable"));
  chmodSync(foreign, 0o777);
  const user = await attach(foreign, { uid: nobody });
  expect(statSync(join(foreign, ".gen-durable/postgres")).uid).toBe(nobody);
  await user.release();
});

/** The pid of a process named postgres that has ended under a parent that does not care, as PID 1 of a container may. */
async function zombiePostgres(): Promise<number> {
  const postgres = join(newFolder(), "postgres");
  symlinkSync("/bin/sleep", postgres);
  const parent = spawn("/bin/sh", ["-c", `"${postgres}" 0 & echo $!; exec sleep 60`]);
  parents.add(parent);
  const [pid] = (await once(parent.stdout, "data")) as [Buffer];
  return Number(pid.toString());
}

async function refusal(where: string, uid?: number): Promise<{ code: string; message: string }> {
  const refused = new AttachedProcess(where, uid === undefined ? {} : { uid });
  const { code = "", message = "" } = await refused.event("failed");
  await refused.ended;
  return { code, message };
}
