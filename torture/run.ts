// Run: one torture from its server to its verdict.
// R1  Everything random comes from the seed.
// R2  Whatever happens, nothing of the run outlives it.

import { spawnSync } from "node:child_process";
import { setMaxListeners } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Caller } from "./caller.js";
import type { CheckScene } from "./check/invariant.js";
import { Watcher } from "./check/watcher.js";
import { Database } from "./database.js";
import type { Engine } from "./engine.js";
import type { FaultKind } from "./faults/fault.js";
import { Storm } from "./faults/storm.js";
import { Fleet } from "./fleet.js";
import { Keeper } from "./keeper.js";
import { Ledger } from "./ledger.js";
import { Load } from "./load.js";
import { createRecords } from "./records.js";
import { Relay } from "./relay.js";
import { isBroken, type Judgement, judge } from "./report.js";
import { configOf } from "./settings.js";
import type { WorkKind } from "./work/work.js";

export interface RunOptions {
  engine: Engine;
  seed: number;
  seconds: number;
  kinds: readonly WorkKind[];
  faults: readonly FaultKind[];
  faultGapMs: number;
  nodes: number;
  /** Instances at work at once, about. */
  sizeMax: number;
  /** After the faults: how long it may take until one more instance ends. */
  settleSeconds: number;
  /** Look for broken invariants during the run so often, and end with the first; 0: only at the end. */
  checkEverySeconds: number;
  /** Progress. */
  say(line: string): void;
  /** Every fault, and the steps of every second. */
  tell(line: string): void;
}

export interface RunResult {
  judgements: Judgement[];
  scene: CheckScene;
  steps: number;
  faults: ReadonlyMap<string, number>;
  work: ReadonlyMap<string, number>;
  /** Nodes that ended without being told to, and what they said last. */
  ownEnds: readonly string[];
  /** Errors of the harness itself. */
  errors: readonly unknown[];
  seconds: number;
  /** From the first work to the last check. */
  loadSeconds: number;
  close(): Promise<void>;
}

const DATABASE = "torture";
/** A run goes on for so long at most to see every kind of fault and of work. */
const EXTENSION_MS_MAX = 120_000;
/** At the end of a run ends may be waited for so many times as long as for one. */
const SETTLES_MAX = 5;
/** Signals have numbers; the callers' do not meet. */
const SIGS_PER_CALLER = 100_000_000;

/** Runs a torture; the caller closes the result, which holds the server until then. */
export async function run(options: RunOptions): Promise<RunResult> {
  const startMs = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-torture-"));
  const journal = join(folder, "journal");
  mkdirSync(journal);
  chmodSync(folder, 0o755);
  const keeper = await Keeper.start();
  const cleanUps: (() => Promise<unknown>)[] = [
    async () => rmSync(folder, { recursive: true, force: true }),
    () => keeper.stop(),
  ];
  const close = async (): Promise<void> => {
    for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  };
  try {
    return await torture(options, { startMs, folder, journal, keeper, cleanUps, close });
  } catch (error) {
    await close();
    throw error;
  }
}

interface Frame {
  startMs: number;
  folder: string;
  journal: string;
  keeper: Keeper;
  cleanUps: (() => Promise<unknown>)[];
  close(): Promise<void>;
}

async function torture(options: RunOptions, frame: Frame): Promise<RunResult> {
  const { engine, seed, say } = options;
  const { folder, journal, keeper, cleanUps, startMs } = frame;
  const secondsNow = (): number => (performance.now() - startMs) / 1_000;
  const url = await createDatabase(keeper.url, engine, folder, configOf(seed, 0));
  const database = new Database(url);
  cleanUps.push(() => database.close());
  await database.session(createRecords);

  const ledger = new Ledger(journal);
  const fleet = new Fleet({ seed, engine, keeper, ledger, url, folder, journal });
  cleanUps.push(() => fleet.stopAll());
  for (let n = 1; n <= options.nodes; n++) await fleet.open(`node-${n}`);

  const { hostname, port } = new URL(url);
  const clientRelay = await Relay.start({ host: hostname, port: Number(port) });
  cleanUps.push(() => clientRelay.close());
  const through = new URL(url);
  through.port = String(clientRelay.port);
  const over = new AbortController();
  setMaxListeners(0, over.signal);
  const clients = [through.href, url].map((url) => engine.createClient({ url }));
  cleanUps.push(() => Promise.all(clients.map((client) => client.close())));
  const callers = clients.map(
    (client, n) => new Caller({ client, ledger, signal: over.signal, firstSig: n * SIGS_PER_CALLER }),
  );
  const [firstCaller] = callers;
  if (firstCaller === undefined) throw new Error("there is no caller");

  await fleet.settle();
  const watcher = new Watcher(url, ledger);
  watcher.start();
  cleanUps.push(() => watcher.stop());
  const load = new Load({ seed, kinds: options.kinds, callers, sizeMax: options.sizeMax });
  const storm = new Storm({
    seed,
    kinds: options.faults,
    gapMs: options.faultGapMs,
    tell: (line) => options.tell(`${secondsNow().toFixed(1)} s: ${line}`),
    scene: {
      fleet,
      keeper,
      ledger,
      caller: firstCaller,
      clientRelay,
      // The pool's own overloads; only text and values are used.
      query: database.query.bind(database) as unknown as typeof database.pool.query,
    },
  });
  // R2: a run that fails gives out no more work and does no more harm.
  cleanUps.push(async () => {
    load.close();
    over.abort();
    await storm.calm();
  });
  const scene = (isQuiet: boolean): CheckScene => ({
    query: (text, values) => database.query(text, values),
    serverLog: keeper.log(),
    mismatches: callers.flatMap(({ mismatches }) => mismatches),
    brokenLogs: fleet.brokenInvariants,
    watched: watcher.watched,
    isQuiet,
  });
  const judgeNow = async (isQuiet: boolean): Promise<Judgement[]> => {
    await database.session((client) => ledger.write(client));
    return judge(scene(isQuiet));
  };

  say(`running after ${secondsNow().toFixed(1)} s`);
  const loadedAtMs = performance.now();
  const loading = load.run();
  const storming = storm.run();
  const endsAtMs = performance.now() + options.seconds * 1_000;
  let early: Judgement[] | undefined;
  let checkedAtMs = performance.now();
  let saidAtMs = checkedAtMs;
  // On a slow machine it takes longer until every kind has come.
  const isWhole = (): boolean =>
    storm.seen.size === options.faults.length && load.given.size === options.kinds.length;
  const lastMs = endsAtMs + EXTENSION_MS_MAX;
  while (
    early === undefined &&
    (performance.now() < endsAtMs || (!isWhole() && performance.now() < lastMs))
  ) {
    await sleep(Math.min(1_000, Math.max(50, endsAtMs - performance.now())));
    if (fleet.failure !== undefined) throw fleet.failure;
    if (performance.now() - saidAtMs > 15_000) {
      saidAtMs = performance.now();
      say(`${secondsNow().toFixed(0)} s: ${await countSteps(database)} steps, ${sum(storm.seen)} faults`);
    }
    const { checkEverySeconds } = options;
    if (checkEverySeconds === 0 || performance.now() - checkedAtMs < checkEverySeconds * 1_000) continue;
    const judgements = await judgeNow(false);
    checkedAtMs = performance.now();
    if (judgements.some(isBroken)) early = judgements;
  }

  load.close();
  await storm.calm();
  await Promise.all([loading, storming]);
  say(`calm after ${secondsNow().toFixed(1)} s`);
  if (early === undefined) {
    await fleet.settle();
    await settle(
      database,
      Promise.all([load.drained(), storm.drained()]),
      clients[1] ?? clients[0],
      options.settleSeconds,
      say,
    );
  }
  over.abort();
  await load.drained();
  await storm.drained();
  await watcher.stop();
  say(`quiet after ${secondsNow().toFixed(1)} s`);
  const judgements = early ?? (await judgeNow(true));
  return {
    judgements,
    scene: scene(true),
    steps: await countSteps(database),
    faults: storm.seen,
    work: load.given,
    ownEnds: fleet.ownEnds,
    errors: [...load.errors, ...storm.errors],
    seconds: secondsNow(),
    loadSeconds: (performance.now() - loadedAtMs) / 1_000,
    close: frame.close,
  };
}

/** Waits until everything has ended, or for `seconds` after the last end. What nobody was told of is cancelled: nobody will signal it. */
async function settle(
  database: Database,
  drained: Promise<unknown>,
  client: ReturnType<Engine["createClient"]> | undefined,
  seconds: number,
  say: (line: string) => void,
): Promise<void> {
  let isDrained = false;
  void drained.then(() => {
    isDrained = true;
  });
  const lastMs = performance.now() + SETTLES_MAX * seconds * 1_000;
  let endsAtMs = 0;
  let fewest = Number.POSITIVE_INFINITY;
  do {
    const live = await database.query<{ id: number; status: string }>(
      "SELECT id, status FROM gen_durable.gen_durable WHERE status NOT IN ('done', 'failed')",
    );
    if (live.length === 0 && isDrained) return;
    // A slow machine is none that stands still.
    if (live.length < fewest) {
      fewest = live.length;
      endsAtMs = Math.min(performance.now() + seconds * 1_000, lastMs);
    }
    if (isDrained) {
      for (const { id, status } of live) {
        if (status === "awaiting_signal") await client?.cancel(id, "a stray").catch(() => undefined);
      }
    }
    await sleep(200);
  } while (performance.now() < endsAtMs);
  say(`not everything has ended: ${fewest} instances were left, and for ${seconds} s no fewer`);
}

async function createDatabase(
  maintenanceUrl: string,
  engine: Engine,
  folder: string,
  config: Record<string, unknown>,
): Promise<string> {
  const maintenance = new Database(maintenanceUrl);
  await maintenance.query(`CREATE DATABASE ${DATABASE}`);
  await maintenance.close();
  const url = new URL(maintenanceUrl);
  url.pathname = `/${DATABASE}`;
  const file = join(folder, "migrate.config.mjs");
  writeFileSync(file, `export default ${JSON.stringify({ ...config, database: { url: url.href } })};\n`);
  const { status, stderr } = spawnSync(process.execPath, [engine.bin, "migrate", "--config", file], {
    cwd: folder,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`the schema could not be made: ${stderr}`);
  return url.href;
}

async function countSteps(database: Database): Promise<number> {
  const [row] = await database.query<{ n: number }>("SELECT count(*) AS n FROM torture.runs");
  return row?.n ?? 0;
}

export function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}
