// Connections that are cut without a word: no FIN, no RST, no answer. Nothing hangs for ever, and each is noticed in its time.

import { expect, test } from "@jest/globals";
import { createClient } from "#core/client/client.js";
import { Connection } from "#core/database/connection.js";
import { until } from "../support/until.js";
import { severed } from "./severed.js";

const POLL_MS = 6_000;

const rig = severed();

test("a silently severed LISTEN is noticed within 15 s; until then polls find the work, and then it is caught up", async () => {
  const node = await rig.start(POLL_MS);
  expect(await rig.runOne(20_000)).toBeLessThan(POLL_MS / 2);
  expect(rig.proxy.blackHole((name) => name.startsWith("gen-durable listener"))).toBe(1);
  const severedMs = performance.now();
  // Within the poll interval, and a margin for the run itself.
  expect(await rig.runOne(20_000)).toBeLessThan(POLL_MS * 1.5);
  const lost = await node.logged("the connection to the database is lost", 16_000);
  expect(lost).toMatchObject({ connection: "listener" });
  expect(performance.now() - severedMs).toBeLessThan(15_000);
  await until(
    () =>
      rig.proxy.links.some(
        ({ name, isBlackHoled }) => name.startsWith("gen-durable listener") && !isBlackHoled,
      ),
    {
      describe: "LISTEN is open again",
    },
  );
  await node.logged("the connection to the database is back");
  expect(await rig.runOne(20_000)).toBeLessThan(POLL_MS / 2);
  expect(await node.stop()).toEqual({ code: 0, signal: null });
}, 90_000);

test("a server that takes the connection and says nothing is given up, by connections and by clients", async () => {
  rig.proxy.swallow();
  const url = `${rig.proxy.url(rig.database.url)}?connect_timeout=1`;
  const settings = { url, listenUrl: undefined, schema: "gen_durable", prepare: true };
  await expect(Connection.open(settings, { role: "test" })).rejects.toThrow(/timeout/);
  const silent = createClient({ url });
  await expect(silent.insertByName("plain")).rejects.toMatchObject({
    code: "ERR_GEN_DURABLE_DATABASE_UNREACHABLE",
  });
  await silent.close();
  rig.proxy.heal();
}, 30_000);
