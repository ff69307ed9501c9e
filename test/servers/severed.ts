// Severed: a node whose connections go through a proxy that can swallow them, and a client with a way of its own.

import { afterAll, beforeAll, expect } from "@jest/globals";
import { type Client, createClient } from "#core/client/client.js";
import { createAudit } from "../support/audit.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { TcpProxy } from "../support/proxy.js";

export interface Severed {
  database: TestDatabase;
  proxy: TcpProxy;
  /** Its own way to the database: only the node's connections are cut. */
  client: Client;
  start(
    pollIntervalMs: number,
    config?: { leaseTtlMs: number; heartbeatIntervalMs: number },
  ): Promise<NodeProcess>;
  /** How long one instance takes from its insert to its end. */
  runOne(timeoutMs: number): Promise<number>;
}

/** Makes them before the file's first test. */
export function severed(): Severed {
  const rig = {} as Severed; // filled before any test reads it
  beforeAll(async () => {
    const database = await createDatabase();
    await createAudit(database);
    const proxy = await TcpProxy.start(database.url);
    const client = createClient({ url: database.url });
    Object.assign(rig, {
      database,
      proxy,
      client,
      start: (pollIntervalMs, config = { leaseTtlMs: 30_000, heartbeatIntervalMs: 10_000 }) =>
        startNode({
          database,
          fsms: ["basic"],
          config: {
            database: { url: proxy.url(database.url) },
            pollIntervalMs,
            maxPollIntervalMs: pollIntervalMs,
            ...config,
          },
        }),
      runOne: async (timeoutMs: number) => {
        const startedMs = performance.now();
        const { id } = await client.insertByName("plain");
        expect(await client.waitFor(id, { timeoutMs })).toMatchObject({ status: "done" });
        return performance.now() - startedMs;
      },
    } satisfies Severed);
  });
  afterAll(() => rig.client.close());
  return rig;
}
