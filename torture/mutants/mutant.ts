// Mutant: the engine with one rule taken out. A copy of what is built, with a text replaced in it; production code knows
// nothing of it. A text that is not found exactly once fails loudly: the engine has moved on, and so must the mutant.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyEngine, type Engine } from "../engine.js";

export interface Change {
  /** Below dist. */
  file: string;
  from: string;
  to: string;
}

export interface Mutant {
  name: string;
  /** What is broken, in words. */
  about: string;
  changes: readonly Change[];
  /** The invariants that may notice. */
  noticedBy: readonly number[];
  /** Work and faults that bring the broken rule about; absent: all. */
  work?: readonly string[];
  faults?: readonly string[];
  nodes?: number;
  sizeMax?: number;
  /** How long its work is given out; absent: until it is noticed. For what only the end of a run can tell. */
  seconds?: number;
}

/** Makes the mutant; whoever uses it removes it. */
export function build(mutant: Mutant): Promise<Engine> {
  return copyEngine((dist) => {
    for (const change of mutant.changes) apply(mutant, dist, change);
  });
}

/** The texts of a mutant that are not found exactly once in what is built. */
export function outdated(mutant: Mutant): string[] {
  return mutant.changes
    .filter(
      ({ file, from }) => occurrences(readFileSync(join("packages/cli/dist", file), "utf8"), from) !== 1,
    )
    .map(({ file, from }) => `${mutant.name}: ${file}: ${from}`);
}

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}

function apply(mutant: Mutant, dist: string, { file, from, to }: Change): void {
  const path = join(dist, file);
  const text = readFileSync(path, "utf8");
  const found = occurrences(text, from);
  if (found !== 1)
    throw new Error(
      `mutant ${mutant.name}: the text to replace is ${found} times in ${file}, expected once:\n${from}`,
    );
  writeFileSync(
    path,
    text.replace(from, () => to),
  );
}
