// NodeLog: where a node's log lines go. The threads send records; only the main thread writes.

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface NodeLog {
  /** Writes one line of the engine's own. */
  write(level: LogLevel, message: string, fields?: Record<string, unknown>): void;
  /** Writes a bunyan record as a step's `ctx.log` made it. */
  record(record: Record<string, unknown>): void;
  /** Resolves when everything written has left the process. */
  flush(): Promise<void>;
}
