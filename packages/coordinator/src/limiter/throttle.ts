// Throttle: tells what limits have done to the picks of a node: rows held back, rows that name a limit which nobody has
// configured.

import { nameOfKey } from "#core/key.js";
import type { LimitedClaim } from "../limitedClaim.js";
import type { Report } from "../report.js";

/** Unconfigured limits that are remembered as told; past it they are told no more. */
const TOLD_MAX = 1_000;

export class Throttle {
  readonly #report: Report;
  readonly #told = new Set<string>();

  constructor(report: Report) {
    this.#report = report;
  }

  tell(queue: string, { denials, unknown }: Pick<LimitedClaim, "denials" | "unknown">): void {
    for (const { kind, key, why, wanted, granted } of denials) {
      if (why === "full") this.#report.event("throttled", { queue, kind, key, wanted, granted });
    }
    for (const { key, fsm, step } of unknown)
      this.#tellUnknown({ name: nameOfKey(key), key, fsm, step, queue });
  }

  #tellUnknown(fields: { name: string; key: string; fsm: string; step: string; queue: string }): void {
    const identity = JSON.stringify([fields.name, fields.fsm, fields.step, fields.queue]);
    if (this.#told.has(identity) || this.#told.size >= TOLD_MAX) return;
    this.#told.add(identity);
    this.#report.event("unknown", fields);
    this.#report.log("warn", "rows wait for a rate limit that nobody has configured", fields);
  }
}
