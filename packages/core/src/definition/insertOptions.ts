// InsertOptions: what an instance may be given when it is created, by a client or as a child.

import type { Status } from "../instance.js";
import type { Key } from "../key.js";
import type { Schedule } from "../schedule.js";

export interface InsertSettings extends Schedule {
  /** The queue; absent: the definition's. */
  queue?: string | undefined;
  /** Lower runs first; absent: 0. An integer. */
  priority?: number | undefined;
  /** At most one instance (or the configured limit) of this key executes at once. */
  concurrencyKey?: Key | undefined;
  /** The rate limit that the first step takes its tokens from. */
  rateLimit?: Key | undefined;
  /** Tokens that the first step takes; absent: 1. */
  weight?: number | undefined;
  /** The instance's business identity: at most one instance occupies it at a time. */
  correlationKey?: string | undefined;
  /** The statuses in which it is occupied; absent: the four live ones. */
  correlationScope?: readonly Status[] | undefined;
}

/** The state may be left out where the schema has a default for everything. */
export type StateOption<Input> = Record<never, never> extends Input ? { state?: Input } : { state: Input };

export type InsertOptions<Input = unknown> = InsertSettings & StateOption<Input>;
