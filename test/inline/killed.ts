// Killed: chains that hop between gates of limit 1, on nodes that are killed at moments of chance, and what must be true of
// them afterwards. The tests differ in how much of it they do.

import { gateErrors, readBuckets } from "../limits/rig.js";
import { type AuditEntry, createAudit, readAudit } from "../support/audit.js";
import type { TestDatabase } from "../support/database.js";
import { illegalMoves, readHistory, recordHistory } from "../support/history.js";
import type { NodeProcess } from "../support/node.js";
import { seededRandom } from "../support/seed.js";
import { until } from "../support/until.js";
import type { Stop } from "./machines.js";
import { overlaps, poke, startWalkers } from "./rig.js";

export interface KilledOptions {
  chains: number;
  steps: number;
  kills: number;
  timeoutMs: number;
}

export interface KilledResult {
  /** Kills that met a step. */
  met: number;
  /** What must be empty. */
  unfinished: string[];
  wrongResults: number[];
  /** Chains of which a kill made more than one step run again. */
  rerun: string[];
  overlaps: string[];
  gateErrors: unknown[];
  notFull: unknown[];
  illegalMoves: string[];
}

const CONFIG = {
  queues: { default: 10 },
  concurrencyLimits: { one: { limit: 1 } },
  rateLimits: { fast: { allowed: 1_000_000, period: "1 second" } },
  leaseTtlMs: 5_000,
  heartbeatIntervalMs: 500,
  nodeTimeoutMs: 6_000,
  pollIntervalMs: 200,
  maxPollIntervalMs: 200,
  reaper: { intervalMs: 100 },
};

export async function killNodes(database: TestDatabase, options: KilledOptions): Promise<KilledResult> {
  await createAudit(database);
  await recordHistory(database);
  const random = seededRandom("killed chains");
  const plans = new Map<number, Stop[]>();
  for (let n = 0; n < options.chains; n++) {
    const stops = Array.from({ length: options.steps }, (): Stop => {
      const hop = random.between(0, 9);
      const ms = random.between(0, 2);
      if (hop < 5) return { ms, to: { concurrencyKey: `one:${hop}` } };
      return hop === 5
        ? { ms, to: { concurrencyKey: null } }
        : { ms, to: hop === 6 ? { rateLimit: "fast" } : {} };
    });
    const { id } = await database.one<{ id: number }>(
      "INSERT INTO gen_durable (fsm, step, state) VALUES ('chained', 'walk', $1) RETURNING id",
      [JSON.stringify({ stops })],
    );
    plans.set(id, stops);
  }
  const nodes: NodeProcess[] = await Promise.all([
    startWalkers(database, CONFIG),
    startWalkers(database, CONFIG),
  ]);
  await poke(database);
  const killedPids: number[] = [];
  const total = options.chains * options.steps;
  for (let kill = 1; kill <= options.kills; kill++) {
    // Moments of chance, spread over the work.
    const after = Math.floor((total * (kill - random.between(0, 900) / 1_000)) / (options.kills + 1));
    await until(async () => (await countSteps(database)) >= after, {
      timeoutMs: options.timeoutMs,
      everyMs: 5,
    });
    const victim = nodes.splice(random.between(0, nodes.length - 1), 1)[0];
    if (victim === undefined) break;
    killedPids.push(victim.pid);
    await victim.kill();
    nodes.push(await startWalkers(database, CONFIG));
  }
  const unfinished = (): Promise<{ row: string }[]> =>
    database.query("SELECT g::text AS row FROM gen_durable g WHERE status <> 'done' LIMIT 5");
  await until(async () => (await unfinished()).length === 0, {
    timeoutMs: options.timeoutMs,
    everyMs: 100,
  }).catch(() => undefined);
  const left = await unfinished();
  for (const node of nodes) await node.stop();
  const audit = await readAudit(database);
  const buckets = await readBuckets(database);
  return {
    met: new Set(audit.filter((entry) => entry.left_at === null).map(({ pid }) => pid)).size,
    unfinished: left.map(({ row }) => row),
    wrongResults: await wrongResults(database, options.steps),
    rerun: rerun(audit, new Set(killedPids)),
    overlaps: overlaps(audit, plans),
    gateErrors: await gateErrors(database),
    notFull: buckets.filter(({ kind, capacity, available }) => kind === "conc" && capacity !== available),
    illegalMoves: illegalMoves(await readHistory(database)),
  };
}

async function countSteps(database: TestDatabase): Promise<number> {
  const { n } = await database.one<{ n: number }>("SELECT count(*) AS n FROM public.test_audit");
  return n;
}

/** Chains whose result is not one entry a step, in order, as the steps that were committed found it. */
async function wrongResults(database: TestDatabase, steps: number): Promise<number[]> {
  const rows = await database.query<{ id: number; result: string[] }>(
    "SELECT id, result FROM gen_durable WHERE status = 'done'",
  );
  return rows
    .filter(({ result }) => result.length !== steps || result.some((seen, at) => !seen.startsWith(`${at}|`)))
    .map(({ id }) => id);
}

/** Steps that ran again: at most one a chain and killed process, and none of a process that was not killed. */
function rerun(audit: readonly AuditEntry[], killed: ReadonlySet<number>): string[] {
  const last = new Map<string, AuditEntry>();
  const again = new Map<string, number>();
  const wrong: string[] = [];
  for (const entry of audit) {
    const { instance, note } = entry;
    const step = `${instance} at ${(note as { at: number }).at}`;
    const before = last.get(step);
    last.set(step, entry);
    if (before === undefined) continue;
    if (!killed.has(before.pid)) wrong.push(`${step} ran again, and its process was not killed`);
    const name = `${instance} in ${before.pid}`;
    const times = (again.get(name) ?? 0) + 1;
    again.set(name, times);
    if (times > 1) wrong.push(`${times} steps of ${name} ran again`);
  }
  return wrong;
}
