// What else is cut without a word: everything at once, and the connection of a wait.

import { expect, test } from "@jest/globals";
import { createClient } from "#core/client/client.js";
import { startNode } from "../support/node.js";
import { until } from "../support/until.js";
import { severed } from "./severed.js";

const rig = severed();

test("with every connection cut silently a node is at work again within 20 s, and its heart has not stopped", async () => {
  const node = await rig.start(1_000);
  await rig.runOne(20_000);
  const cut = rig.proxy.blackHole();
  expect(cut).toBeGreaterThanOrEqual(4);
  expect(await rig.runOne(60_000)).toBeLessThan(20_000);
  // The heartbeat's answer is missed after 5 s, before anybody could declare the node dead.
  expect(node.log.some(({ msg }) => msg.includes("declared dead"))).toBe(false);
  // Each part finds out in its own time; none does so twice.
  const lost = node.log.filter(({ msg }) => msg.includes("connection to the database is lost"));
  expect(new Set(lost.map(({ connection }) => connection)).size).toBe(lost.length);
  await node.kill();
}, 90_000);

test("a wait whose connection is cut silently goes on over another one", async () => {
  const waiting = createClient({ url: rig.proxy.url(rig.database.url) });
  const { id } = await waiting.insertByName("plain");
  const answer = waiting.waitFor(id, { timeoutMs: 30_000 });
  await until(() => rig.proxy.links.some(({ name }) => name.startsWith("gen-durable client")));
  rig.proxy.blackHole((name) => name.startsWith("gen-durable client"));
  const node = await startNode({ database: rig.database, fsms: ["basic"] });
  expect(await answer).toMatchObject({ status: "done" });
  await node.stop();
  await waiting.close();
}, 60_000);
