// `npm run mutants [-- --only NAME,...] [--seed N] [--verbose]`: tortures every mutant until the checker notices it, and prints what
// noticed it and when. Ends with status 1 when one survives. The engine itself is not run here: `npm run torture` does.

import { parseArgs } from "node:util";
import { FAULT_KINDS } from "../faults/storm.js";
import { isBroken, printFindings, printJudgements } from "../report.js";
import { run } from "../run.js";
import { WORK_KINDS } from "../work/kinds.js";
import { build, type Mutant } from "./mutant.js";
import { MUTANTS } from "./mutants.js";

/** A mutant that lives so long has survived. */
const SECONDS_MAX = 90;
const CHECK_EVERY_SECONDS = 4;
const SETTLE_SECONDS = 25;

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    seed: { type: "string", default: "1" },
    verbose: { type: "boolean", default: false },
  },
});
const only = values.only?.split(",");
const chosen = MUTANTS.filter(({ name }) => only === undefined || only.includes(name));
if (chosen.length === 0) throw new Error(`there is no mutant of the name ${values.only}`);

console.log(`${"mutant".padEnd(24)}${"noticed by".padEnd(16)}${"after".padEnd(8)}what is broken`);
let survivors = 0;
for (const mutant of chosen) {
  const { noticed, seconds, texts } = await torture(mutant);
  const isCaught = noticed.some((number) => mutant.noticedBy.includes(number));
  if (!isCaught) survivors++;
  const by = noticed.length === 0 ? "NOBODY" : `${isCaught ? "" : "WRONG: "}${noticed.join(", ")}`;
  console.log(
    `${mutant.name.padEnd(24)}${by.padEnd(16)}${`${seconds.toFixed(0)} s`.padEnd(8)}${mutant.about}`,
  );
  if (!isCaught) for (const text of texts) console.log(`    ${text}`);
}
console.log(
  survivors === 0 ? `\nall ${chosen.length} were noticed` : `\n${survivors} of ${chosen.length} survived`,
);
process.exitCode = survivors === 0 ? 0 : 1;

/** Which invariants noticed, and after how many seconds of load. */
async function torture(mutant: Mutant): Promise<{ noticed: number[]; seconds: number; texts: string[] }> {
  const engine = await build(mutant);
  try {
    const result = await run({
      engine,
      seed: Number(values.seed),
      seconds: mutant.seconds ?? SECONDS_MAX,
      kinds: WORK_KINDS.filter(({ name }) => mutant.work === undefined || mutant.work.includes(name)),
      faults: FAULT_KINDS.filter(({ name }) => mutant.faults === undefined || mutant.faults.includes(name)),
      faultGapMs: 1_500,
      nodes: mutant.nodes ?? 2,
      sizeMax: mutant.sizeMax ?? 150,
      settleSeconds: SETTLE_SECONDS,
      checkEverySeconds: CHECK_EVERY_SECONDS,
      say: () => undefined,
      tell: () => undefined,
    });
    try {
      const broken = result.judgements.filter(isBroken);
      if (values.verbose) {
        printJudgements(result.judgements);
        await printFindings(result.scene, result.judgements, async () => `--only ${mutant.name}`);
        for (const end of result.ownEnds) console.log(`a node ended by itself: ${end}`);
      }
      return {
        noticed: broken.map(({ number }) => number),
        seconds: result.loadSeconds,
        texts: broken.flatMap(({ verdict }) => verdict.broken.slice(0, 2).map(({ text }) => text)),
      };
    } finally {
      await result.close();
    }
  } finally {
    engine.remove();
  }
}
