// Watcher: looks at the tables again and again while the run goes on. Each look is one statement, hence one snapshot, in
// which the promise must hold whatever is under way.

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { Ledger } from "../ledger.js";
import type { Finding } from "./invariant.js";

const EVERY_MS = 150;
/** A look that took longer was itself in trouble, and so was everybody else. */
const STALL_MS = 1_000;
const FINDINGS_MAX = 20;

export interface Watched {
  looks: number;
  exclusive: Finding[];
  gates: Finding[];
  parks: Finding[];
}

const LOOKS = {
  exclusive: `
    SELECT min(id) AS id, 'executing at once under ' || concurrency_key || ': ' || string_agg(id::text, ', ') AS text
      FROM gen_durable.gen_durable
     WHERE status = 'executing' AND concurrency_key IS NOT NULL AND concurrency_shard IS NULL
     GROUP BY concurrency_key HAVING count(*) > 1`,
  gates: `
    WITH used AS (SELECT concurrency_key AS key, concurrency_shard AS shard, count(*) AS n FROM gen_durable.gen_durable
                   WHERE status = 'executing' AND concurrency_shard >= 0 GROUP BY 1, 2)
    SELECT NULL::bigint AS id, 'gate ' || coalesce(b.key, u.key) || ' shard ' || coalesce(b.shard, u.shard) || ': '
             || coalesce(u.n, 0) || ' execute; capacity ' || coalesce(b.capacity::text, 'none') || ', available '
             || coalesce(b.available::text, 'none') || ', debt ' || coalesce(b.debt::text, 'none') AS text
      FROM (SELECT * FROM gen_durable.gen_durable_buckets WHERE kind = 'conc') b
      FULL JOIN used u ON u.key = b.key AND u.shard = b.shard
     WHERE b.capacity - b.available + b.debt IS DISTINCT FROM coalesce(u.n, 0)`,
  parks: `
    SELECT g.id, 'parked on ' || g.awaits::text || ' beside the unseen signal ' || s.id || ' "' || s.name || '"' AS text
      FROM gen_durable.gen_durable g
      JOIN gen_durable.signals s ON s.target_id = g.id AND s.consumed_at IS NULL AND s.name = ANY (g.awaits)
     WHERE g.status = 'awaiting_signal' AND s.id <> ALL (g.await_seen)`,
} as const;

export class Watcher {
  readonly watched: Watched = { looks: 0, exclusive: [], gates: [], parks: [] };
  readonly #url: string;
  readonly #ledger: Ledger;
  #isOver = false;
  #running: Promise<void> | undefined;

  constructor(url: string, ledger: Ledger) {
    this.#url = url;
    this.#ledger = ledger;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  get hasFindings(): boolean {
    const { exclusive, gates, parks } = this.watched;
    return exclusive.length + gates.length + parks.length > 0;
  }

  async #run(): Promise<void> {
    let client: pg.Client | undefined;
    while (!this.#isOver) {
      const fromMs = Date.now();
      try {
        client ??= await connect(this.#url);
        await this.#look(client);
      } catch {
        client?.end().catch(() => undefined);
        client = undefined;
      }
      await sleep(EVERY_MS);
      if (Date.now() - fromMs > STALL_MS + EVERY_MS) this.#ledger.trouble(null, "everything slow", fromMs)();
    }
    await client?.end().catch(() => undefined);
  }

  async #look(client: pg.Client): Promise<void> {
    for (const [name, text] of Object.entries(LOOKS) as [keyof typeof LOOKS, string][]) {
      const { rows } = await client.query<{ id: number | null; text: string }>(text);
      const found = this.watched[name];
      for (const row of rows) {
        if (found.length < FINDINGS_MAX)
          found.push({ id: row.id === null ? null : Number(row.id), text: row.text });
      }
    }
    this.watched.looks++;
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: "torture watcher",
    connectionTimeoutMillis: 3_000,
    query_timeout: 5_000,
  });
  client.on("error", () => undefined);
  await client.connect();
  return client;
}
