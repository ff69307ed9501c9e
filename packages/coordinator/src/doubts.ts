// Doubts: claims whose answer was lost with its connection. The server may have carried them out: then rows are executing
// for this node that it does not know. They are released by the claim's name, long before their leases run out.
// DO1  Released twice, some time apart: the lost statement may still have been running at the first time.

import type { Database } from "./database.js";
import { Duty } from "./duty.js";
import { releaseClaims } from "./release.js";
import type { Report } from "./report.js";

const RELEASES = 2;
const RELEASE_SPACING_MS = 1_000;
/** With nothing in doubt; a new doubt wakes the duty. */
const IDLE_MS = 3_600_000;

export class Doubts {
  readonly #database: Database;
  readonly #releasing: Duty;
  readonly #onReleased: (queues: readonly string[]) => void;
  /** How often each claim was released. */
  readonly #claims = new Map<string, number>();

  constructor(options: { database: Database; report: Report; onReleased(queues: readonly string[]): void }) {
    this.#database = options.database;
    this.#onReleased = options.onReleased;
    this.#releasing = new Duty({
      name: "releasing claims without an answer",
      report: options.report,
      retryMs: RELEASE_SPACING_MS,
      run: () => this.#release(),
    });
    this.#releasing.start(IDLE_MS);
  }

  add(claim: string): void {
    this.#claims.set(claim, 0);
    this.#releasing.wake();
  }

  stop(): Promise<void> {
    return this.#releasing.stop();
  }

  async #release(): Promise<number> {
    if (this.#claims.size === 0) return IDLE_MS;
    const claims = [...this.#claims.keys()];
    const queues = await this.#database.run("keeper", (connection) =>
      releaseClaims(connection, this.#database.statements, { claims, prefix: null }),
    );
    for (const claim of claims) {
      const releases = (this.#claims.get(claim) ?? 0) + 1;
      if (releases >= RELEASES) this.#claims.delete(claim);
      else this.#claims.set(claim, releases);
    }
    if (queues.length > 0) this.#onReleased(queues);
    return this.#claims.size > 0 ? RELEASE_SPACING_MS : IDLE_MS;
  }
}
