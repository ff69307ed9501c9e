// Flags: what a command line states, as a partial configuration. Flags carry no defaults: an absent one states nothing.

import type { Statement } from "./environment.js";

export interface SettingFlags {
  databaseUrl?: string | undefined;
  listenUrl?: string | undefined;
  schema?: string | undefined;
  /** Take the embedded server, whatever else is configured. */
  embedded?: boolean | undefined;
  fsms?: readonly string[] | undefined;
  instance?: string | undefined;
  workers?: number | string | undefined;
  /** `default=10,email` : queues with the steps that they run at once; without a number as configured. false: none. */
  queues?: string | false | undefined;
  /** false (`--no-reaper`) switches it off; true states nothing. */
  reaper?: boolean | undefined;
  /** false (`--no-gc`) switches it off; true states nothing. */
  gc?: boolean | undefined;
  poke?: string | undefined;
  drainTimeoutMs?: number | string | undefined;
}

export function statementsOfFlags(flags: SettingFlags): Statement[] {
  const all: Statement[] = [
    { keys: ["database", "url"], value: flags.databaseUrl, origin: "--database-url" },
    { keys: ["database", "listenUrl"], value: flags.listenUrl, origin: "--listen-url" },
    { keys: ["database", "schema"], value: flags.schema, origin: "--schema" },
    { keys: ["fsms"], value: flags.fsms, origin: "--fsms" },
    { keys: ["instance"], value: flags.instance, origin: "--instance" },
    { keys: ["workers"], value: numberOf(flags.workers), origin: "--workers" },
    {
      keys: ["queues"],
      value: flags.queues === false ? {} : flags.queues,
      origin: flags.queues === false ? "--no-queues" : "--queues",
    },
    { keys: ["reaper"], value: flags.reaper === false ? false : undefined, origin: "--no-reaper" },
    { keys: ["gc"], value: flags.gc === false ? false : undefined, origin: "--no-gc" },
    { keys: ["poke"], value: flags.poke, origin: "--poke" },
    { keys: ["drainTimeoutMs"], value: numberOf(flags.drainTimeoutMs), origin: "--drain-timeout-ms" },
  ];
  return all.filter(({ value }) => value !== undefined);
}

// What is no number stays a text, so that the refusal shows it as it was written.
function numberOf(value: number | string | undefined): unknown {
  return typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value))
    ? Number(value)
    : value;
}
