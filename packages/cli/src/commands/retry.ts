// `gen-durable retry`: runs the failed step of failed instances again.

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

const REFUSALS = {
  not_found: "there is no such instance",
  not_failed: "it has not failed",
  duplicate: "its correlation key is occupied now",
} as const;

export function retryCommand(): Command {
  return withJson(
    withDatabase(newCommand("retry", "run the failed step of a failed instance again")).argument(
      "<targets...>",
      "the instances' ids, or correlation keys",
    ),
  )
    .option("--by-key", "the targets are correlation keys, even where they look like ids")
    .addHelpText(
      "after",
      `\nIts attempts count from 0 again. Exit status 1 when one of them was refused.\n${examples(
        "gen-durable retry 1234",
        "gen-durable list --status failed --limit 1000 --json | jq '.instances[].id' | xargs -r gen-durable retry",
      )}`,
    )
    .action(async (texts: string[], flags: DatabaseFlags & OutputFlags & { byKey?: boolean }) => {
      const targets = targetsOf(texts, flags.byKey === true);
      const { withClient } = await import("../project.js");
      const answers = await withClient(flags, {}, async (client) => {
        const found: ({ instance: number | string } & Awaited<ReturnType<typeof client.retry>>)[] = [];
        for (const instance of targets) found.push({ instance, ...(await client.retry(instance)) });
        return found;
      });
      if (answers.some(({ ok }) => !ok)) process.exitCode = EXIT.failure;
      if (flags.json === true) return printJson(answers);
      for (const answer of answers) {
        if (answer.ok) print(`${answer.instance} runs again`);
        else {
          const occupant = answer.reason === "duplicate" ? ` by ${answer.id}` : "";
          print(`${answer.instance} refused: ${REFUSALS[answer.reason]}${occupant}`);
        }
      }
    });
}
