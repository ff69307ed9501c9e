// What a person types: help, mistakes, and what the exit status says about them. No database is involved.

import { readFileSync } from "node:fs";
import { afterAll, expect, jest, test } from "@jest/globals";
import { folderWith, removeFolders, runCommand } from "./command.js";

jest.setTimeout(60_000);
afterAll(removeFolders);

const empty = folderWith({});
const COMMANDS = [
  ...[
    "init",
    "start",
    "migrate",
    "grants",
    "insert",
    "signal",
    "status",
    "list",
    "show",
    "retry",
    "cancel",
    "nodes",
    "versions",
    "limits",
  ],
  ...["db url", "db stop"],
];

test("every command has help with examples, on stdout, and docs/cli.md names each of its flags", async () => {
  const manual = readFileSync("docs/cli.md", "utf8");
  const helps = await Promise.all(
    COMMANDS.map((command) => runCommand([...command.split(" "), "--help"], { cwd: empty })),
  );
  for (const [index, { code, stdout, stderr }] of helps.entries()) {
    expect({ command: COMMANDS[index], code, stderr }).toEqual({
      command: COMMANDS[index],
      code: 0,
      stderr: "",
    });
    expect(stdout).toContain("Examples:");
    const flags = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, flag]) => flag);
    expect(flags.filter((flag) => flag !== "--help" && !manual.includes(flag ?? ""))).toEqual([]);
  }
  const general = await runCommand(["--help"], { cwd: empty });
  for (const command of COMMANDS) expect(general.stdout).toContain(`\n  ${command.split(" ")[0]}`);
});

test.each([
  [["start", "--wrokers", "2"], "unknown option '--wrokers'\n(Did you mean --workers?)"],
  [["statsu"], "unknown command 'statsu'\n(Did you mean status?)"],
  [["start", "--workers", "some"], "Expected a whole number of at least 1."],
  [["start", "--log-level", "loud"], "Allowed choices are debug, info, warn, error."],
  [["start", "extra"], "too many arguments"],
  [["insert"], "missing required argument 'fsm'"],
  [["insert", "hello", "{order: 42}"], "Quote it for the shell"],
  [["insert", "hello", "--at", "soon"], "Expected a time"],
  [["list", "--after", "one"], "Expected an instance's id"],
  [["list", "--limit", "10001"], "Expected a whole number from 1 to 10000."],
  [["start", "--port", "99999"], "Expected a whole number from 0 to 65535."],
  [
    ["start", "--host", "0.0.0.0"],
    "--host 0.0.0.0 says where health is served, and no port is stated: add --port <n>",
  ],
  [["start", "--port", "0", "--host", ""], "Expected an address, for example 0.0.0.0."],
  [["status", "--embedded", "--database-url", "postgres://x"], "cannot be used with option"],
  [["list", "--config", "nowhere.ts"], "nowhere.ts does not exist"],
])("%j is refused with status 2, a reason, and no stack", async (args, reason) => {
  const { code, stdout, stderr } = await runCommand(args, { cwd: empty });
  expect(stderr).toContain(reason);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
});

test("a typo in the config file is named with its path, what was found, and what is allowed", async () => {
  const folder = folderWith({
    "gen-durable.config.ts": `export default { queus: { default: 1 }, leaseTtlMs: "long", gc: { retention: 1 } };`,
  });
  const { code, stderr } = await runCommand(["start", "--log-level", "error"], { cwd: folder });
  expect(code).toBe(2);
  expect(stderr).toContain("gen-durable.config.ts:");
  expect(stderr).toMatch(/queus: unknown key; did you mean "queues"\? \(allowed: /);
  expect(stderr).toMatch(/leaseTtlMs: expected an integer .*, found "long"/);
  expect(stderr).toMatch(/gc\.retention: unknown key; did you mean "retentionMs"\?/);
});

test("a config file that cannot be used is named", async () => {
  const broken = [
    ["export default {", /gen-durable\.config\.ts:1:17: /],
    ["export const config = {};", /gen-durable\.config\.ts has no default export/],
    [
      'throw new Error("not today");',
      /gen-durable\.config\.ts cannot be loaded: Error: not today \(.*config\.ts:1/,
    ],
    [
      'import "nothing-of-this-name"; export default {};',
      /gen-durable\.config\.ts cannot be loaded: .*nothing-of-this-name/,
    ],
  ] as const;
  const results = await Promise.all(
    broken.map(([text]) => runCommand(["status"], { cwd: folderWith({ "gen-durable.config.ts": text }) })),
  );
  for (const [index, { code, stderr }] of results.entries()) {
    expect(stderr).toMatch(broken[index]?.[1] ?? /$^/);
    expect(code).toBe(2);
  }
});

test("modules that cannot be used are named before anything is started", async () => {
  const cases = [
    [{}, /fsms: no file matches "\.\/fsms\/\*\.ts"/],
    [{ "fsms/a.ts": "export const a = {" }, /fsms\/a\.ts:1:19: /],
    [
      { "fsms/a.ts": 'import { b } from "./b.js";\nexport const a = b;' },
      /fsms\/a\.ts:1:19: Could not resolve "\.\/b\.js"/,
    ],
  ] as const;
  const results = await Promise.all(
    cases.map(([files]) =>
      runCommand(["start"], {
        cwd: folderWith({ "gen-durable.config.ts": 'export default { fsms: ["./fsms/*.ts"] };', ...files }),
      }),
    ),
  );
  for (const [index, { code, stderr }] of results.entries()) {
    expect(stderr).toMatch(cases[index]?.[1] ?? /$^/);
    expect(code).toBe(2);
  }
});

test("in production the folder's own Postgres must be asked for", async () => {
  const { code, stderr } = await runCommand(["start"], { cwd: empty, env: { NODE_ENV: "production" } });
  expect(code).toBe(2);
  expect(stderr).toContain("--embedded");
});

test("an address to serve health on is nothing without a port, and an empty variable is nothing at all", async () => {
  const stated = await runCommand(["start"], { cwd: empty, env: { GEN_DURABLE_HOST: "0.0.0.0" } });
  expect(stated.stderr).toContain(
    "GEN_DURABLE_HOST=0.0.0.0 says where health is served, and no port is stated",
  );
  expect(stated.code).toBe(2);
  const names = ["GEN_DURABLE_HOST", "GEN_DURABLE_PORT", "GEN_DURABLE_LOG_LEVEL", "GEN_DURABLE_LOG_FORMAT"];
  const unset = await runCommand(["start"], {
    cwd: empty,
    env: { NODE_ENV: "production", ...Object.fromEntries(names.map((name) => [name, ""])) },
  });
  expect(unset.stderr).toContain("--embedded");
});

test("a database that does not answer is a failure, named without its password", async () => {
  const url = "postgres://somebody:secret@127.0.0.1:1/nowhere";
  const { code, stderr } = await runCommand(["status", "--database-url", url], { cwd: empty });
  expect(code).toBe(1);
  expect(stderr).toContain("postgres://somebody:***@127.0.0.1:1/nowhere (from --database-url)");
  expect(stderr).not.toContain("secret");
  const debugged = await runCommand(["status"], {
    cwd: empty,
    env: { DATABASE_URL: url, GEN_DURABLE_DEBUG: "1" },
  });
  expect(debugged.stderr).toContain("(from DATABASE_URL)");
  expect(debugged.stderr).toMatch(/^\s+at /m);
  expect(debugged.stderr).not.toContain("secret");
});

test("nothing that only looks makes a server; db says what there is", async () => {
  const [status, url, stop] = await Promise.all([
    runCommand(["status"], { cwd: empty }),
    runCommand(["db", "url"], { cwd: empty }),
    runCommand(["db", "stop"], { cwd: empty }),
  ]);
  expect(status.code).toBe(2);
  expect(status.stderr).toContain("has no Postgres of its own yet");
  expect(url.code).toBe(1);
  expect(stop).toMatchObject({ code: 0, stdout: "it is not running\n" });
});

test("FORCE_COLOR colours, NO_COLOR goes before it", async () => {
  const [plain, forced, none] = await Promise.all([
    runCommand(["db", "url"], { cwd: empty }),
    runCommand(["db", "url"], { cwd: empty, env: { FORCE_COLOR: "1" } }),
    runCommand(["db", "url"], { cwd: empty, env: { FORCE_COLOR: "1", NO_COLOR: "1" } }),
  ]);
  expect(plain.stderr).toMatch(/^error: /);
  expect(forced.stderr).toContain("\u001b[31merror:");
  expect(none.stderr).toMatch(/^error: /);
});
