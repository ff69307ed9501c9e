// `npm run torture -- --minutes 5 --seed N [--only KIND] [--instance W] [--mutant NAME]`: real nodes under load and faults,
// and a checker that knows nothing of the engine's code. Ends with status 1 when an invariant is broken, when one was not put
// to the test, or when a kind of fault or of work did not come.

import { parseArgs } from "node:util";
import { copyEngine } from "./engine.js";
import { FAULT_KINDS } from "./faults/storm.js";
import { isBroken, printFindings, printJudgements } from "./report.js";
import { run, sum } from "./run.js";
import { storyOf } from "./story.js";
import { WORK_KINDS } from "./work/kinds.js";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    seed: { type: "string" },
    only: { type: "string" },
    faults: { type: "string" },
    instance: { type: "string" },
    mutant: { type: "string" },
    gap: { type: "string", default: "1900" },
    size: { type: "string", default: "1200" },
    verbose: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    "npm run torture -- [--minutes 1] [--seed N] [--only KIND] [--faults KIND,...|none] [--instance W]",
  );
  console.log(`work: ${WORK_KINDS.map(({ name }) => name).join(", ")}`);
  console.log(`faults: ${FAULT_KINDS.map(({ name }) => name).join(", ")}`);
  process.exit(0);
}

const seed = values.seed === undefined ? Math.floor(Math.random() * 1e9) : Number(values.seed);
const only = values.only?.split(",");
const named = values.faults?.split(",");
const kinds = WORK_KINDS.filter(({ name }) => only === undefined || only.includes(name));
const faults = FAULT_KINDS.filter(({ name }) => named === undefined || named.includes(name));
if (kinds.length === 0) throw new Error(`there is no work of the kind ${values.only}`);
const isWhole = only === undefined && named === undefined;

const replayOf = (w: number | null): string =>
  [
    `npm run torture -- --minutes ${values.minutes} --seed ${seed}`,
    ...(values.only === undefined ? [] : [`--only ${values.only}`]),
    ...(values.faults === undefined ? [] : [`--faults "${values.faults}"`]),
    ...(w === null ? [] : [`--instance ${w}`]),
  ].join(" ");

console.log(replayOf(null));
const engine = await copyEngine();
process.once("exit", () => engine.remove());
const result = await run({
  engine,
  seed,
  seconds: Number(values.minutes) * 60,
  kinds,
  faults,
  faultGapMs: Number(values.gap),
  nodes: 2,
  sizeMax: Number(values.size),
  settleSeconds: 60,
  checkEverySeconds: 0,
  say: (line) => console.log(line),
  tell: (line) => {
    if (values.verbose) console.log(line);
  },
});
try {
  const { judgements, scene } = result;
  printJudgements(judgements);
  await printFindings(scene, judgements, async ({ id }) => {
    const [row] = await scene.query<{ w: number | null }>(
      "SELECT w FROM torture.history WHERE id = $1 AND w IS NOT NULL LIMIT 1",
      [id],
    );
    return replayOf(row?.w ?? null);
  });
  if (values.instance !== undefined) await printInstances(Number(values.instance));
  if (values.verbose) await printPace();
  console.log(
    `\nsteps: ${result.steps}   faults: ${sum(result.faults)}   seconds: ${result.seconds.toFixed(0)}`,
  );
  console.log(`faults: ${listOf(result.faults)}`);
  console.log(`work: ${listOf(result.work)}`);
  for (const end of result.ownEnds) console.log(`a node ended by itself: ${end}`);
  for (const error of result.errors) console.log("an error of the harness:", error);
  const failures = [
    ...judgements.filter(isBroken).map(({ number }) => `invariant ${number} is broken`),
    ...judgements
      .filter(({ verdict }) => isWhole && verdict.cases === 0)
      .map(({ number }) => `invariant ${number} was not put to the test`),
    ...(isWhole ? missing("work", kinds, result.work) : []),
    ...(isWhole ? missing("fault", faults, result.faults) : []),
    ...result.errors.map((error) => `the harness failed: ${String(error)}`),
  ];
  console.log(
    failures.length === 0 ? "\nPASSED" : `\nFAILED: ${failures.join("; ")}\nreplay: ${replayOf(null)}`,
  );
  process.exitCode = failures.length === 0 ? 0 : 1;
} finally {
  await result.close();
}

async function printInstances(w: number): Promise<void> {
  const rows = await result.scene.query<{ id: number }>(
    "SELECT DISTINCT id FROM torture.history WHERE w = $1 ORDER BY 1",
    [w],
  );
  for (const { id } of rows) {
    console.log(`\ninstance ${id} of work ${w}`);
    for (const line of await storyOf(result.scene, id)) console.log(`  ${line}`);
  }
}

/** Steps by the second. */
async function printPace(): Promise<void> {
  const rows = await result.scene.query<{ second: string; steps: number; ms: number }>(
    `SELECT to_char(begun_at, 'HH24:MI:SS') AS second, count(*) AS steps, avg(took_ms)::float8 AS ms FROM torture.runs GROUP BY 1 ORDER BY 1`,
  );
  for (const { second, steps, ms } of rows)
    console.log(`${second} ${steps} steps, audit ${ms?.toFixed(0)} ms`);
}

function listOf(counts: ReadonlyMap<string, number>): string {
  return [...counts].map(([name, count]) => `${name} ${count}`).join(", ");
}

function missing(
  what: string,
  kinds: readonly { name: string }[],
  seen: ReadonlyMap<string, number>,
): string[] {
  return kinds
    .filter(({ name }) => !seen.has(name))
    .map(({ name }) => `no ${what} of the kind "${name}" came`);
}
