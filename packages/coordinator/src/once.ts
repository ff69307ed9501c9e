// Once: when a node that was started with `--once` is done. It ends when nothing can progress by itself soon: nothing is
// held, and in its queues no known instance is runnable (now or within ONCE_REACH_MS), executing anywhere, or waiting
// for a deadline within that reach. What waits for a signal, or is due later than that, is left for another day.

import type { KnownDefinitions } from "./claim.js";
import type { Database } from "./database.js";
import { Duty } from "./duty.js";
import type { Report } from "./report.js";

/** Long enough for the usual back-offs; a run by cron is not kept for a row that is due tomorrow. */
export const ONCE_REACH_MS = 60_000;
const LOOK_INTERVAL_MS = 100;

export class Once {
  readonly #looking: Duty;

  constructor(options: {
    queues: readonly string[];
    known: KnownDefinitions;
    /** Whether a row without a live lease counts: only where somebody reaps it. */
    reaps: boolean;
    database: Database;
    report: Report;
    /** Nothing is held, and every picker's last search came to its end. */
    isQuiet(): boolean;
    onDone(): void;
  }) {
    const { database, queues, known } = options;
    this.#looking = new Duty({
      name: "looking whether anything is left to do",
      report: options.report,
      retryMs: 1_000,
      run: async () => {
        if (!options.isQuiet()) return LOOK_INTERVAL_MS;
        const [progress] = await database.run("keeper", (connection) =>
          connection.run<{ pending: boolean }>(database.statements.get("picker/find_progress"), [
            queues,
            known.names,
            known.versions,
            ONCE_REACH_MS,
            options.reaps,
          ]),
        );
        if (progress?.pending === false && options.isQuiet()) options.onDone();
        return LOOK_INTERVAL_MS * 2;
      },
    });
  }

  start(): void {
    this.#looking.start(0);
  }

  stop(): Promise<void> {
    return this.#looking.stop();
  }
}
