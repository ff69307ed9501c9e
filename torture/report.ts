// Report: what a run tells at its end.

import type { CheckScene, Finding, Verdict } from "./check/invariant.js";
import { INVARIANTS } from "./check/invariants.js";
import { storyOf } from "./story.js";

const FINDINGS_SHOWN_MAX = 5;
const STORIES_SHOWN_MAX = 2;

export interface Judgement {
  number: number;
  title: string;
  verdict: Verdict;
  seconds: number;
}

export async function judge(scene: CheckScene): Promise<Judgement[]> {
  const judgements: Judgement[] = [];
  for (const { number, title, check } of INVARIANTS) {
    const fromMs = performance.now();
    const verdict = await check(scene);
    judgements.push({ number, title, verdict, seconds: (performance.now() - fromMs) / 1_000 });
  }
  return judgements;
}

export function isBroken({ verdict }: Judgement): boolean {
  return verdict.broken.length > 0;
}

export function printJudgements(judgements: readonly Judgement[]): void {
  console.log(
    "\n invariant                                                                                cases  broken",
  );
  for (const { number, title, verdict } of judgements)
    console.log(
      `${String(number).padStart(3)} ${title.padEnd(86)}${String(verdict.cases).padStart(8)}${String(verdict.broken.length).padStart(8)}`,
    );
}

/** The first findings of each broken invariant, and the stories of the first instances. */
export async function printFindings(
  scene: CheckScene,
  judgements: readonly Judgement[],
  replay: (finding: Finding) => Promise<string>,
): Promise<void> {
  for (const judgement of judgements.filter(isBroken)) {
    const { number, title, verdict } = judgement;
    console.log(`\nINVARIANT ${number} IS BROKEN: ${title}`);
    for (const [at, finding] of verdict.broken.slice(0, FINDINGS_SHOWN_MAX).entries()) {
      console.log(`  ${finding.id === null ? "" : `instance ${finding.id}: `}${finding.text}`);
      if (finding.id === null || at >= STORIES_SHOWN_MAX) continue;
      for (const line of await storyOf(scene, finding.id)) console.log(`      ${line}`);
      console.log(`  replay: ${await replay(finding)}`);
    }
    const more = verdict.broken.length - FINDINGS_SHOWN_MAX;
    if (more > 0) console.log(`  and ${more} more`);
  }
}
