// Child: a process in which one engine works or inserts, told what to do over IPC by process.ts.
// Arguments: the engine's file in engines/, the URL of its store, the engine's options as JSON.
// Answers each command { n, command, ... } with { n, answer } or { n, error }, and reports how many units its handlers have ended.

import { nowMs } from "./clock.mjs";

const [, , file, url, json] = process.argv;
const options = JSON.parse(json ?? "{}");
const engine = await import(`./engines/${file}`);

/** Often enough to see the end of a run at once, seldom enough to cost nothing. */
const REPORT_MS = 10;

const units = { count: 0, reported: 0, firstMs: null };
let worker;
let starts = new Map();
let cpuBefore = process.cpuUsage();

/** What engines call from their handlers: once a job, at the end of a chain, at a join. */
const hooks = {
  started(n) {
    const atMs = nowMs();
    units.firstMs ??= atMs;
    if (n !== undefined) starts.set(n, atMs);
  },
  ended(count = 1) {
    units.count += count;
  },
};

function report() {
  if (units.count === units.reported) return;
  units.reported = units.count;
  process.send({ count: units.count });
}

const commands = {
  async setUp() {
    await engine.setUp(url, options);
  },
  async bulk({ count, kind }) {
    await engine.bulk(url, { count, kind, options });
  },
  async start({ workload }) {
    cpuBefore = process.cpuUsage();
    setInterval(report, REPORT_MS).unref();
    const atMs = nowMs();
    worker = await engine.startWorker(url, { workload, options, hooks });
    return { atMs };
  },
  async fanOut({ parents, children }) {
    await worker.fanOut(parents, children);
  },
  /** Enqueues one at a time, by schedule. Numbers count up from `from`. */
  async enqueue({ count, from, spacingMs }) {
    const producer = await engine.startProducer(url, options);
    await producer.send(from - 1);
    const calledMs = [];
    const pending = [];
    const beginMs = nowMs() + spacingMs;
    for (let n = 0; n < count; n++) {
      await sleepUntil(beginMs + n * spacingMs);
      calledMs.push([from + n, nowMs()]);
      pending.push(producer.send(from + n));
    }
    await Promise.all(pending);
    await producer.close();
    return { calledMs };
  },
  async usage() {
    const { user, system } = process.cpuUsage(cpuBefore);
    return {
      cpuUs: user + system,
      residentMb: process.resourceUsage().maxRSS / 1_024,
      firstMs: units.firstMs,
    };
  },
  async starts() {
    const seen = [...starts];
    starts = new Map();
    return { starts: seen };
  },
  async stop() {
    await worker?.stop();
  },
};

process.on("message", async ({ n, command, ...rest }) => {
  try {
    process.send({ n, answer: (await commands[command](rest)) ?? {} });
  } catch (error) {
    process.send({ n, error: String(error?.stack ?? error) });
  }
});
process.on("disconnect", () => process.exit(0));
process.send({ ready: true, versions: engine.versions });

function sleepUntil(atMs) {
  return new Promise((resolve) => setTimeout(resolve, Math.max(0, atMs - nowMs())));
}
