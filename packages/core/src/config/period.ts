// Period: a length of time as a configuration writes it.

import { DURATION_MS_MAX } from "../name.js";

const UNIT_MS: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
};

/** What is allowed, for messages. */
export const PERIOD_FORMS = 'milliseconds above 0, or "<n> second(s) | minute(s) | hour(s) | day(s)"';

/** Milliseconds of a period; undefined when it is none. */
export function parsePeriod(period: unknown): number | undefined {
  const ms = typeof period === "string" ? parseText(period) : period;
  return typeof ms === "number" && ms > 0 && ms <= DURATION_MS_MAX ? ms : undefined;
}

function parseText(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s+(second|minute|hour|day)s?\s*$/.exec(text);
  const unitMs = UNIT_MS[match?.[2] ?? ""];
  return unitMs === undefined ? undefined : Number(match?.[1]) * unitMs;
}
