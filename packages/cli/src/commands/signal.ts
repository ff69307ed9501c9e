// `gen-durable signal`: sends a durable message to an instance.

import type { Command } from "commander";
import { Refusal } from "../exit.js";
import {
  type DatabaseFlags,
  examples,
  json,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { print, printJson } from "../output.js";

interface SignalFlags extends DatabaseFlags, OutputFlags {
  dedupKey?: string;
  byKey?: boolean;
}

export function signalCommand(): Command {
  return withJson(
    withDatabase(newCommand("signal", "send a signal to an instance"))
      .argument("<target>", "the instance's id, or its correlation key")
      .argument("<name>", "the signal's name")
      .argument("[json]", "its payload; - reads stdin", json),
  )
    .option("--dedup-key <key>", "a second signal with this key to the same instance changes nothing")
    .option("--by-key", "the target is a correlation key, even if it looks like an id")
    .addHelpText(
      "after",
      `\nExit status 1 when no live instance is the target: nothing is stored then.\n${examples(
        `gen-durable signal order:42 payment_confirmed '{"amount": 100}' --dedup-key evt-7`,
        "gen-durable signal 1234 approved",
      )}`,
    )
    .action(async (target: string, name: string, payload: unknown, flags: SignalFlags) => {
      const isId = /^\d+$/.test(target) && flags.byKey !== true;
      const { withClient } = await import("../project.js");
      const result = await withClient(flags, {}, (client) =>
        client.signal(isId ? Number(target) : target, name, payload, {
          ...(flags.dedupKey === undefined ? {} : { dedupKey: flags.dedupKey }),
        }),
      );
      if (flags.json === true) printJson(result);
      if (!result.ok)
        throw new Refusal(
          `no live instance is ${isId ? `number ${target}` : `"${target}"`}: nothing was stored`,
        );
      if (flags.json !== true) print("stored");
    });
}
