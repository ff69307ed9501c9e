// `gen-durable insert`: creates instances of a machine that some node has registered, by its name.

import { type Command, Option } from "commander";
import type { NamedInsertOptions } from "#core/client/call.js";
import { UsageError } from "#core/errors.js";
import { STATUSES, type Status } from "#core/instance.js";
import { EXIT } from "../exit.js";
import {
  anyInteger,
  collect,
  type DatabaseFlags,
  examples,
  integer,
  json,
  newCommand,
  type OutputFlags,
  time,
  withDatabase,
  withJson,
} from "../options.js";
import { print, printJson } from "../output.js";

interface InsertFlags extends DatabaseFlags, OutputFlags {
  machineVersion?: number;
  queue?: string;
  priority?: number;
  delayMs?: number;
  at?: Date;
  key?: string;
  scope?: string[];
  count?: number;
}

/** More than this is a program's work: insertMany. */
const COUNT_MAX = 100_000;
/** Inserts on their way at once. */
const LANES = 8;

export function insertCommand(): Command {
  return withJson(
    withDatabase(newCommand("insert", "create an instance"))
      .argument("<fsm>", "the machine's or job's name")
      .argument("[json]", "its state, or a job's arguments; - reads stdin", json),
  )
    .option(
      "--machine-version <n>",
      "the machine's version; the newest that a node has registered",
      integer(1),
    )
    .option("-q, --queue <name>", "a queue other than the machine's own")
    .option("--priority <n>", "lower runs first", anyInteger)
    .addOption(new Option("--delay-ms <ms>", "run it so much later").argParser(integer(0)).conflicts("at"))
    .option("--at <time>", "run it at this time, for example 2030-01-31T09:00:00Z", time)
    .option("--key <key>", "a correlation key: while it is taken nothing is inserted")
    .option(
      "--scope <statuses>",
      `while in which statuses it holds its key: ${STATUSES.join(", ")}; several with commas`,
      collect,
    )
    .option("--count <n>", "so many of the same", integer(1, COUNT_MAX))
    .addHelpText(
      "after",
      `\nThe name is looked up among what nodes have registered when they started. Prints the id. Exit status 1 when the\ncorrelation key was taken: the id is the occupant's then.\n${examples(
        `gen-durable insert hello '{"name": "durable"}'`,
        `gen-durable insert checkout '{"order": 42}' --key order:42 --delay-ms 60000`,
        "generate-order | gen-durable insert checkout - --json",
      )}`,
    )
    .action(insert);
}

async function insert(fsm: string, state: unknown, flags: InsertFlags): Promise<void> {
  const count = flags.count ?? 1;
  const options: NamedInsertOptions = {
    ...(state === undefined ? {} : { state: stateOf(state) }),
    ...(flags.machineVersion === undefined ? {} : { version: flags.machineVersion }),
    ...(flags.queue === undefined ? {} : { queue: flags.queue }),
    ...(flags.priority === undefined ? {} : { priority: flags.priority }),
    ...(flags.delayMs === undefined ? {} : { delayMs: flags.delayMs }),
    ...(flags.at === undefined ? {} : { at: flags.at }),
    ...(flags.key === undefined ? {} : { correlationKey: flags.key }),
    ...(flags.scope === undefined ? {} : { correlationScope: flags.scope.map(status) }),
  };
  const { withClient } = await import("../project.js");
  const results = await withClient(flags, { createsEmbedded: true }, async (client) => {
    const found: Awaited<ReturnType<typeof client.insertByName>>[] = [];
    let left = count;
    const lane = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        found.push(await client.insertByName(fsm, options));
      }
    };
    await Promise.all(Array.from({ length: Math.min(LANES, count) }, lane));
    return found;
  });
  if (results.some(({ ok }) => !ok)) process.exitCode = EXIT.failure;
  if (flags.json === true) printJson(flags.count === undefined ? results[0] : results);
  else for (const result of results) print(result.ok ? String(result.id) : `duplicate of ${result.id}`);
}

function stateOf(value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new UsageError("INVALID_STATE", `state: expected a JSON object, found ${JSON.stringify(value)}`, {
    path: "state",
  });
}

export function status(text: string): Status {
  const found = STATUSES.find((it) => it === text);
  if (found !== undefined) return found;
  throw new UsageError("INVALID_OPTION", `"${text}" is no status (there are ${STATUSES.join(", ")})`);
}
