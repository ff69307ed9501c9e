// What a person sees of a node from outside: health over HTTP, counters, and events in the host's own process.

import { execFile, spawn } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "@jest/globals";
import { createClient } from "gen-durable";
import { createAudit, readAudit } from "../support/audit.js";
import { createDatabase } from "../support/database.js";
import { spawnNode } from "../support/node.js";
import { counter, hold } from "../support/probes/basic.js";
import { until } from "../support/until.js";

const run = promisify(execFile);

test("a node serves its health and its counters on loopback: not ready before it takes work, nor when it drains", async () => {
  const database = await createDatabase();
  await createAudit(database);
  const holder = await database.session();
  await holder.query("BEGIN");
  await holder.query("LOCK TABLE gen_durable.nodes IN ACCESS EXCLUSIVE MODE");
  const node = spawnNode({ database, flags: ["--port", "0"], config: { drainTimeoutMs: 1_000 } });
  const { msg } = await node.logged("health is served on");
  const url = msg.slice(msg.indexOf("http"));
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  const read = async (path: string) => {
    const response = await fetch(`${url}${path}`);
    return { status: response.status, text: await response.text() };
  };
  expect(await read("/healthz")).toEqual({ status: 200, text: "ok\n" });
  expect(await read("/readyz")).toEqual({ status: 503, text: "executors 0/2, database down, starting\n" });
  await holder.query("COMMIT");
  await until(async () => (await read("/readyz")).status === 200, { describe: "the node is ready" });
  const client = createClient({ pool: database.pool });
  const { id } = await client.insert(counter, { state: { target: 2 } });
  expect(await client.waitFor(id, { timeoutMs: 10_000 })).toMatchObject({ status: "done" });
  let metrics = "";
  await until(
    async () => {
      metrics = (await read("/metrics")).text;
      return metrics.includes("gen_durable_outcomes_committed_total 3");
    },
    { describe: () => `three outcomes are counted in ${metrics}` },
  );
  expect(metrics).toMatch(/gen_durable_ready 1\n/);
  expect(metrics).toMatch(/gen_durable_picks_total [1-9]/);
  expect((await read("/elsewhere")).status).toBe(404);
  await client.insert(hold);
  await until(async () => (await readAudit(database)).some(({ fsm }) => fsm === "hold"));
  node.signal("SIGTERM");
  await until(async () => (await read("/readyz")).status === 503, {
    describe: "it drains, and is not ready",
  });
  expect(await read("/readyz")).toEqual({ status: 503, text: "executors 2/2, database up, draining\n" });
  await node.exited;
});

test("TEL-01, TEL-02, TEL-04: a host that starts a node hears of each step, pick and drain, and can stop it", async () => {
  const database = await createDatabase();
  const config = {
    fsms: [resolve("test/support/probes/basic.ts")],
    database: { url: database.url },
    workers: 1,
  };
  const host = spawn(process.execPath, [resolve("test/node/fixtures/watched.mjs"), JSON.stringify(config)], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, GEN_DURABLE_LOG_LEVEL: "warn" },
  });
  const exited = new Promise((settle) => host.once("close", settle));
  let output = "";
  host.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const heard = () =>
    output
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const steps = () => heard().filter(({ event }) => event === "step");
  await until(() => heard().some(({ event }) => event === "running"), {
    timeoutMs: 30_000,
    describe: "the node runs",
  });
  const client = createClient({ pool: database.pool });
  const { id } = await client.insert(counter, { state: { target: 1 } });
  await until(() => steps().length === 2, { describe: () => `two steps are told of; heard: ${output}` });
  expect(steps()[0]).toMatchObject({
    instance: id,
    fsm: "counter",
    step: "count",
    kind: "next",
    attempt: 0,
    queue: "default",
  });
  expect(steps()[0]?.durationMs).toBeGreaterThanOrEqual(0);
  expect(steps()[1]).toMatchObject({ instance: id, kind: "done" });
  expect(
    heard().some(
      ({ event, queue, claimed }) => event === "pick" && queue === "default" && Number(claimed) >= 1,
    ),
  ).toBe(true);
  host.stdin.end();
  expect(await exited).toBe(0);
  expect(heard().at(-1)).toEqual({ event: "end", reason: "stopped", clean: true });
  expect(
    heard().some(({ event, released, inFlight }) => event === "drain" && released === 0 && inFlight === 0),
  ).toBe(true);
});

test("TOP-05: with the local transport a node hears of its own process's inserts, without a poll", async () => {
  const database = await createDatabase();
  const { stdout } = await run(process.execPath, [
    resolve("test/node/fixtures/local.mjs"),
    database.url,
    resolve("test/support/probes/basic.ts"),
  ]);
  expect(JSON.parse(stdout)).toMatchObject({ status: "done" });
});
