// `gen-durable cancel`: ends instances that should not go on.

import type { Command } from "commander";
import { EXIT } from "../exit.js";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  targetsOf,
  withDatabase,
  withJson,
} from "../options.js";
import { print, printJson } from "../output.js";

interface CancelFlags extends DatabaseFlags, OutputFlags {
  byKey?: boolean;
  reason?: string;
  force?: boolean;
  cascade?: boolean;
}

const ANSWERS = {
  cancelled: "cancelled",
  cancelling: "cancelling: it ends when its running step or its clean-up has ended",
  already_done: "has ended before, and stays as it was",
  not_found: "is no instance",
} as const;

export function cancelCommand(): Command {
  return withJson(
    withDatabase(newCommand("cancel", "end an instance that should not go on")).argument(
      "<targets...>",
      "the instances' ids, or correlation keys",
    ),
  )
    .option("--by-key", "the targets are correlation keys, even where they look like ids")
    .option("--reason <text>", "why; it is kept with the instance")
    .option("--force", "act at once: no clean-up step, and a running step's outcome is dropped")
    .option("--cascade", "its descendants too")
    .addHelpText(
      "after",
      `\nExit status 1 when one of them is no instance.\n${examples(
        'gen-durable cancel 1234 --reason "ordered twice"',
        "gen-durable cancel order:42 --cascade --force",
      )}`,
    )
    .action(async (texts: string[], flags: CancelFlags) => {
      const { reason, force = false, cascade = false } = flags;
      const targets = targetsOf(texts, flags.byKey === true);
      const { withClient } = await import("../project.js");
      const answers = await withClient(flags, {}, async (client) => {
        const found: { instance: number | string; answer: Awaited<ReturnType<typeof client.cancel>> }[] = [];
        for (const instance of targets)
          found.push({ instance, answer: await client.cancel(instance, reason, { force, cascade }) });
        return found;
      });
      if (answers.some(({ answer }) => answer === "not_found")) process.exitCode = EXIT.failure;
      if (flags.json === true) printJson(answers);
      else for (const { instance, answer } of answers) print(`${instance} ${ANSWERS[answer]}`);
    });
}
