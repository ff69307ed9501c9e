// Report: how the coordinator's parts tell the node what happens, and what an error means for them.
// R1  Crash-only: an error that is neither the database's nor expected ends the node (`fatal`). It is never swallowed.
// R2  A database that refuses a statement (a missing table, a cancelled query) is logged, at most once in
//     REPEAT_LOG_MS for one place, and the part tries again.

import { monotonicMs } from "#core/clock.js";
import { messageWithAdvice } from "#core/database/advice.js";
import { classifyFailure } from "#core/database/failure.js";
import { EVENTS, type EventName } from "#core/events.js";

/** The same part's trouble is logged at most so often; a poll that fails would otherwise fill the log. */
const REPEAT_LOG_MS = 30_000;

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface Outlet {
  log(level: LogLevel, message: string, fields?: Record<string, unknown>): void;
  event(name: string, fields: Record<string, unknown>): void;
  fatal(error: unknown): void;
}

export class Report {
  readonly #outlet: Outlet;
  readonly #loggedAtMs = new Map<string, number>();

  constructor(outlet: Outlet) {
    this.#outlet = outlet;
  }

  log(level: LogLevel, message: string, fields: Record<string, unknown> = {}): void {
    this.#outlet.log(level, message, fields);
  }

  event(name: EventName, fields: Record<string, unknown>): void {
    this.#outlet.event(EVENTS[name], fields);
  }

  /** Passes on an event of another thread. */
  forward(name: string, fields: Record<string, unknown>): void {
    this.#outlet.event(name, fields);
  }

  fatal(error: unknown): void {
    this.#outlet.fatal(error);
  }

  /**
   * Judges an error of one part's work. A lost connection has been told by the Database already; a refusal by the
   * server is logged (R2); anything else ends the node (R1).
   */
  trouble(part: string, error: unknown): void {
    if (classifyFailure(error) === "connection") return;
    if (!isServerRefusal(error)) {
      this.fatal(error);
      return;
    }
    const nowMs = monotonicMs();
    if (nowMs - (this.#loggedAtMs.get(part) ?? Number.NEGATIVE_INFINITY) < REPEAT_LOG_MS) return;
    this.#loggedAtMs.set(part, nowMs);
    this.log("error", `${part}: the database refuses a statement; it is tried again`, {
      err: describeServerError(error),
    });
  }
}

/** Whether the server answered with an error of its own (an SQLSTATE). */
export function isServerRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && !code.startsWith("E");
}

/** The facts of an error that help its reader, without the statement's values. */
export function describeServerError(error: unknown): Record<string, unknown> {
  const { code, constraint } = error as Record<string, unknown>;
  return {
    message: messageWithAdvice(error),
    ...(code === undefined ? {} : { code }),
    ...(constraint === undefined ? {} : { constraint }),
  };
}
