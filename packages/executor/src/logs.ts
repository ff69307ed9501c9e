// LogSink: what steps log, on its way to the main thread, which writes it.
//
// G1  Bounded: a thread that logs faster than it may has its records dropped and counted, and the count is told.
// G2  A record is a snapshot: what a step changes after it has logged it does not change the line, and what cannot
//     travel (a function, a cycle, a Proxy) costs its own field at most.

import { createRequire } from "node:module";
// The modules' timers, not the globals: user code may replace those.
import { clearTimeout, setTimeout } from "node:timers";
import { types } from "node:util";
import type { MessagePort } from "node:worker_threads";
import type bunyan from "bunyan";
import type { ExecutorLog } from "#core/protocol/executor.js";

/** Units that a thread may log at once; a unit is a record of a kilobyte. Enough for 10,000 lines of one step. */
const BURST_UNITS = 20_000;

/** Units a second beyond the burst: what a main thread writes without falling behind. */
const UNITS_PER_SECOND = 5_000;

/** Characters of one text within a record; the rest is cut. */
const TEXT_LENGTH_MAX = 65_536;

/** Records that are posted together at most. */
const BATCH_MAX = 500;

/** How long a record waits for others, milliseconds. */
const BATCH_DELAY_MS = 20;

type Record_ = Record<string, unknown>;

/** Most threads never log: they start without the library. */
const require = createRequire(import.meta.url);
const loadBunyan = (): typeof bunyan => require("bunyan") as typeof bunyan; // what its types describe

export class LogSink {
  readonly #facts: { thread: number; now: () => number };
  readonly #port: MessagePort;
  readonly #now: () => number;
  #logger: bunyan | undefined;
  #records: Record_[] = [];
  #dropped = 0;
  #units = BURST_UNITS;
  #refilledAtMs: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(port: MessagePort, facts: { thread: number; now: () => number }) {
    this.#port = port;
    this.#now = facts.now;
    this.#refilledAtMs = facts.now();
    this.#facts = facts;
  }

  /** A logger whose records carry these fields. */
  child(fields: Readonly<Record<string, unknown>>): bunyan {
    this.#logger ??= this.#makeLogger();
    return this.#logger.child(fields, true);
  }

  #makeLogger(): bunyan {
    const { createLogger, stdSerializers } = loadBunyan();
    return createLogger({
      name: "gen-durable",
      thread: this.#facts.thread,
      serializers: { err: stdSerializers.err, error: stdSerializers.err },
      streams: [
        {
          type: "raw",
          level: "info",
          stream: { write: (record: object) => this.#add(record as Record_) } as NodeJS.WritableStream, // bunyan calls nothing else of a raw stream
        },
      ],
    });
  }

  /** Posts what waits. */
  flush(): void {
    if (this.#timer !== undefined) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    if (this.#records.length === 0 && this.#dropped === 0) return;
    const batch: ExecutorLog = { records: this.#records, dropped: this.#dropped };
    this.#records = [];
    this.#dropped = 0;
    this.#port.postMessage(batch);
  }

  #add(record: Record_): void {
    const { snapshot, length } = snapshotOf(record);
    if (!this.#take(1 + Math.floor(length / 1_024))) this.#dropped++;
    else this.#records.push(snapshot);
    if (this.#records.length >= BATCH_MAX) this.flush();
    else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.flush();
      }, BATCH_DELAY_MS);
    }
  }

  #take(units: number): boolean {
    const nowMs = this.#now();
    const refill = ((nowMs - this.#refilledAtMs) / 1_000) * UNITS_PER_SECOND;
    this.#units = Math.min(BURST_UNITS, this.#units + refill);
    this.#refilledAtMs = nowMs;
    if (this.#units < units) return false;
    this.#units -= units;
    return true;
  }
}

/** A copy that can travel and that nobody changes, and the length of its text. */
function snapshotOf(record: Record_): { snapshot: Record_; length: number } {
  const snapshot: Record_ = {};
  let length = 0;
  for (const key of Object.keys(record)) {
    const value = plainOf(record[key]);
    if (value === undefined) continue;
    snapshot[key] = value.plain;
    length += value.length;
  }
  return { snapshot, length };
}

function plainOf(value: unknown): { plain: unknown; length: number } | undefined {
  switch (typeof value) {
    case "string":
      return { plain: cut(value), length: Math.min(value.length, TEXT_LENGTH_MAX) };
    case "number":
    case "boolean":
      return { plain: value, length: 8 };
    case "bigint":
      return { plain: cut(`${value}`), length: 16 };
    case "object": {
      if (value === null || types.isDate(value)) return { plain: value, length: 24 };
      const { safeCycles, stdSerializers } = loadBunyan();
      try {
        const plain = types.isNativeError(value) ? stdSerializers.err(value) : value;
        const json = JSON.stringify(plain, safeCycles());
        if (json.length > TEXT_LENGTH_MAX) return { plain: cut(json), length: TEXT_LENGTH_MAX };
        return { plain: JSON.parse(json), length: json.length };
      } catch {
        return { plain: "[cannot be logged]", length: 24 };
      }
    }
    default:
      return undefined;
  }
}

function cut(text: string): string {
  return text.length > TEXT_LENGTH_MAX ? `${text.slice(0, TEXT_LENGTH_MAX)}…` : text;
}
