// Plenty: whether the limits of one queue had so much left that its next pick may claim without looking first. Pure.
// PT1  A hint: a wrong one costs one statement that claims nothing, never a limit.
// PT2  Each miss in a row doubles the picks that look first, up to LOOKS_MAX; a claim that went through ends that.

const LOOKS_MAX = 64;

/** What a pick says of it. had: claimed without looking. missed: tried in vain. left, short: looked first. */
export type PlentyAnswer = "had" | "missed" | "left" | "short";

export class Plenty {
  #isLeft = false;
  #misses = 0;
  #looks = 0;

  get isLikely(): boolean {
    return this.#isLeft && this.#looks <= 0;
  }

  tell(answer: PlentyAnswer): void {
    if (answer === "had") this.#misses = 0;
    else if (answer === "missed") this.#looks = Math.min(2 ** this.#misses++, LOOKS_MAX);
    else {
      this.#looks--;
      this.#isLeft = answer === "left";
    }
  }
}
