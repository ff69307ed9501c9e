// Outage: one readable story of a database that went away, however many connections lost it: a line when the first is lost, one
// now and then while it lasts, and one when the last is back.
// OU1  Connections that are lost one after the other are one story: it ends when all of them have been back for a moment.

import { lossOf } from "#core/database/advice.js";
import type { NodeLog } from "./log.js";

/** OU1: a server that goes down cuts its connections within milliseconds; some are missed only when they are used. */
const QUIET_MS = 1_000;
/** How often an outage that lasts is told again, with what is in the way by then; sooner when that is something else. */
const REMIND_MS = 30_000;
const NEWS_MS = 5_000;

export class Outage {
  readonly #log: Pick<NodeLog, "write">;
  readonly #nowMs: () => number;
  readonly #away = new Set<string>();
  /** All that were lost in this story. */
  readonly #parts = new Set<string>();
  #sinceMs: number | undefined;
  #told: { atMs: number; code: string | undefined } = { atMs: 0, code: undefined };
  #ending: NodeJS.Timeout | undefined;

  constructor(log: Pick<NodeLog, "write">, nowMs: () => number) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** A part has lost its connection, or has tried in vain to open another. */
  lost(part: string, error: unknown): void {
    clearTimeout(this.#ending);
    this.#away.add(part);
    this.#parts.add(part);
    const nowMs = this.#nowMs();
    const loss = lossOf(error);
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      this.#told = { atMs: nowMs, code: loss.code };
      this.#log.write("warn", "the connection to the database is lost; it is being reopened", {
        connection: part,
        err: loss,
      });
    } else if (nowMs - this.#told.atMs >= (loss.code === this.#told.code ? REMIND_MS : NEWS_MS)) {
      this.#told = { atMs: nowMs, code: loss.code };
      this.#log.write("warn", "the database is still away", {
        connections: [...this.#away],
        awayMs: Math.round(nowMs - this.#sinceMs),
        err: loss,
      });
    }
  }

  /** A part has its connection again. */
  back(part: string): void {
    if (!this.#away.delete(part) || this.#away.size > 0) return;
    const backAtMs = this.#nowMs();
    clearTimeout(this.#ending);
    this.#ending = setTimeout(() => this.#end(backAtMs), QUIET_MS);
    this.#ending.unref();
  }

  #end(backAtMs: number): void {
    this.#log.write("info", "the connection to the database is back", {
      connections: [...this.#parts],
      awayMs: Math.round(backAtMs - (this.#sinceMs ?? backAtMs)),
    });
    this.#sinceMs = undefined;
    this.#parts.clear();
  }
}
