// The node's heartbeat, and what it makes of a coordinator that stands still.

import { expect, test } from "@jest/globals";
import { Heartbeat } from "#cli/node/heartbeat.js";
import { Pulse } from "#core/pulse.js";
import type { NodeSettings } from "#core/settings.js";
import { createDatabase } from "../support/database.js";
import { until } from "../support/until.js";

test("H2: a coordinator that stands still is judged only once the node runs", async () => {
  const database = await createDatabase();
  const standstills: number[] = [];
  const settings = {
    database: database.settings(),
    instance: "one",
    nodeTimeoutMs: 200,
    queues: { default: 1 },
  } as unknown as NodeSettings; // what a heartbeat reads of them
  const heartbeat = new Heartbeat({
    node: "n1",
    settings,
    identity: { hostname: "here", bootId: "boot", pid: process.pid },
    version: "0",
    pulse: new Pulse(),
    events: {
      onDeclaredDead: () => undefined,
      onStandstill: (ms) => standstills.push(ms),
      onLost: () => undefined,
      onBack: () => undefined,
      onRefused: () => undefined,
      beforeReconnect: async () => undefined,
    },
  });
  await heartbeat.start();
  // It beats for longer than a coordinator may stand still, and nobody is blamed.
  await until(async () => {
    const { ms } = await database.one<{ ms: number }>(
      "SELECT extract(epoch FROM heartbeat_at - started_at)::float8 * 1000 AS ms FROM nodes WHERE id = 'n1'",
    );
    return ms > 400;
  });
  expect(standstills).toEqual([]);
  heartbeat.watchCoordinator();
  await until(() => standstills.length > 0);
  await heartbeat.stop({ leave: true });
});
