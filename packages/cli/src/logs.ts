// Logs: a process's log lines on stderr. bunyan records as JSON lines, or readable lines on a terminal.
// L1  Writing never blocks the process: what a slow reader has not taken waits in a bounded buffer, and what does not fit
//     is counted and said. A reader that has gone away (EPIPE) ends the writing, not the process.

import { write } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import bunyan from "bunyan";
import { colorsFor, hasColors } from "./colors.js";
import type { LogLevel, NodeLog } from "./node/log.js";
import { formatRecord } from "./readable.js";

export type LogFormat = "json" | "text";

export interface LogOptions {
  /** The least level that is written. */
  level?: LogLevel;
  /** By default readable text on a terminal, else JSON. */
  format?: LogFormat;
  /** The file descriptor to write to; stderr. */
  fd?: number;
}

/** Waits for a slow reader; about ten thousand lines. */
const BUFFER_CHARS_MAX = 4 * 1024 * 1024;
/** How long the end of a process waits for the reader. */
const FLUSH_TIMEOUT_MS = 1_000;
const AGAIN_MS = 10;

/** A log of this process, on stderr. Its records carry bunyan's fields. */
export function createLog(options: LogOptions = {}): NodeLog {
  const format = options.format ?? (process.stderr.isTTY ? "text" : "json");
  const minimum = bunyan.resolveLevel(options.level ?? "info");
  const colors = colorsFor(hasColors(process.stderr));
  const writer = new LineWriter(options.fd ?? 2, (count) => line(droppedRecord(count)));
  const line = (record: Record<string, unknown>): string =>
    format === "json" ? `${stringify(record)}\n` : `${formatRecord(record, colors)}\n`;
  const sink = { write: (record: Record<string, unknown>) => writer.write(line(record)) };
  // A raw stream receives records, not text; bunyan's types know only the latter.
  const stream = sink as unknown as NodeJS.WritableStream;
  const logger = bunyan.createLogger({
    name: "gen-durable",
    streams: [{ type: "raw", level: minimum, stream }],
  });
  return {
    write(level, message, fields = {}) {
      logger[level](fields, message);
    },
    record(record) {
      if (Number(record.level ?? bunyan.INFO) >= minimum) sink.write(record);
    },
    flush: () => writer.flush(),
  };
}

function droppedRecord(count: number): Record<string, unknown> {
  return {
    name: "gen-durable",
    pid: process.pid,
    level: bunyan.WARN,
    msg: `${count} log lines were dropped: the reader of this log is too slow`,
    time: new Date(),
    v: 0,
  };
}

function stringify(record: Record<string, unknown>): string {
  try {
    return JSON.stringify(record);
  } catch {
    return JSON.stringify(record, bunyan.safeCycles());
  }
}

/** L1. */
class LineWriter {
  readonly #fd: number;
  readonly #describeDropped: (count: number) => string;
  #waiting: string[] = [];
  #waitingChars = 0;
  #dropped = 0;
  #writing: Promise<void> | undefined;
  #broken = false;

  constructor(fd: number, describeDropped: (count: number) => string) {
    this.#fd = fd;
    this.#describeDropped = describeDropped;
  }

  write(text: string): void {
    if (this.#broken) return;
    if (this.#waitingChars + text.length > BUFFER_CHARS_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(text);
    this.#waitingChars += text.length;
    this.#writing ??= this.#drain().finally(() => {
      this.#writing = undefined;
    });
  }

  async flush(): Promise<void> {
    const bound = new AbortController();
    const late = delay(FLUSH_TIMEOUT_MS, undefined, { signal: bound.signal }).catch(() => undefined);
    await Promise.race([this.#writing ?? Promise.resolve(), late]);
    bound.abort();
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#broken) {
      if (this.#dropped > 0) {
        this.#waiting.push(this.#describeDropped(this.#dropped));
        this.#dropped = 0;
      }
      const chunk = Buffer.from(this.#waiting.join(""));
      this.#waiting = [];
      this.#waitingChars = 0;
      await this.#writeAll(chunk);
    }
  }

  async #writeAll(chunk: Buffer): Promise<void> {
    for (let offset = 0; offset < chunk.length && !this.#broken; ) {
      const result = await new Promise<number | NodeJS.ErrnoException>((resolve) => {
        write(this.#fd, chunk, offset, chunk.length - offset, null, (error, written) =>
          resolve(error ?? written),
        );
      });
      if (typeof result === "number") offset += result;
      else if (result.code === "EAGAIN" || result.code === "EINTR") await delay(AGAIN_MS);
      else this.#broken = true;
    }
  }
}
