// Instance: one durable run, which is a row. These are its values as TypeScript sees them.

export const STATUSES = [
  "runnable",
  "executing",
  "awaiting_signal",
  "awaiting_children",
  "done",
  "failed",
] as const;
export type Status = (typeof STATUSES)[number];

/** The statuses in which an instance still has something to do; also the default correlation scope. */
export const LIVE_STATUSES = [
  "runnable",
  "executing",
  "awaiting_signal",
  "awaiting_children",
] as const satisfies readonly Status[];

export type WakeReason = "signal" | "timeout" | "children";

/** JSON as text, already checked to be storable as `jsonb` (core/src/json.ts). Travels unparsed between threads. */
export type JsonText = string;
