// A connection that ends at the moment at which the pool hands it on: its last answer and its end come in one piece.
import { afterAll, beforeAll, expect, test } from "@jest/globals";
import pg from "pg";
import { createClient } from "#core/client/client.js";
import { POOL_CONNECTIONS_MAX } from "#core/client/pool.js";
import { createDatabase, type TestDatabase } from "../support/database.js";
import { plain } from "../support/probes/basic.js";
import { TcpProxy } from "../support/proxy.js";
import { until } from "../support/until.js";

let database: TestDatabase;
let proxy: TcpProxy;

beforeAll(async () => {
  database = await createDatabase();
  proxy = await TcpProxy.start(database.url);
});
afterAll(() => proxy.close());

const countRows = async (): Promise<number> =>
  (await database.one<{ n: number }>("SELECT count(*) AS n FROM gen_durable")).n;
const countSessions = async (): Promise<number> =>
  (
    await database.one<{ n: number }>(
      "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name LIKE 'gen-durable client%' AND datname = current_database()",
    )
  ).n;

test.each(["a pool of its own", "a given pool"])(
  "C2: with %s, a call that waits for a place gets a connection that ends just then, and the process lives",
  async (whose) => {
    const url = proxy.url(database.url);
    const given = new pg.Pool({
      connectionString: url,
      max: POOL_CONNECTIONS_MAX,
      application_name: "gen-durable client",
    });
    given.on("error", () => undefined);
    const client = createClient({
      poke: "none", // A poke that comes late would take a place.
      ...(whose === "a given pool" ? { pool: given } : { url }),
    });
    const insertAll = (): Promise<unknown>[] =>
      Array.from({ length: POOL_CONNECTIONS_MAX }, () => client.insert(plain));
    const [some] = await Promise.all(insertAll());
    const { id } = some as { id: number };
    await until(async () => (await countSessions()) === POOL_CONNECTIONS_MAX);

    proxy.hold();
    const before = await countRows();
    const answered = insertAll();
    // In a transaction, hence on a connection that is checked out.
    const waiting = Array.from({ length: POOL_CONNECTIONS_MAX }, () => client.cancel(id, "no more"));
    await until(async () => (await countRows()) === before + POOL_CONNECTIONS_MAX);
    await database.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'gen-durable client%' AND datname = current_database()",
    );
    await until(async () => (await countSessions()) === 0);
    proxy.letGo();

    expect((await Promise.allSettled(answered)).every(({ status }) => status === "fulfilled")).toBe(true);
    for (const outcome of await Promise.allSettled(waiting)) {
      if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ kind: "transient" });
    }
    expect(await client.insert(plain)).toMatchObject({ ok: true });
    await client.close();
    await given.end();
  },
);
