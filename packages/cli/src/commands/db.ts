// `gen-durable db`: the project's own Postgres.

import { dirname } from "node:path";
import type { Command } from "commander";
import { EXIT, Refusal } from "../exit.js";
import { examples, newCommand, type OutputFlags, withJson } from "../options.js";
import { count, print, printJson } from "../output.js";

interface DbFlags extends OutputFlags {
  config?: string;
  force?: boolean;
}

export function dbCommand(): Command {
  return newCommand("db", "the project's own Postgres (docs/embedded.md)")
    .addCommand(urlCommand())
    .addCommand(stopCommand());
}

function urlCommand(): Command {
  return withJson(withFolder(newCommand("url", "print the URL of the running server, with its password")))
    .addHelpText(
      "after",
      `\nThis is the one place where a password is printed: the output is meant for other programs.\n${examples('psql "$(gen-durable db url)"', 'DATABASE_URL="$(gen-durable db url)" node app.js')}`,
    )
    .action(async (flags: DbFlags) => {
      const { findEmbedded } = await import("../embedded/attach.js");
      const folder = await folderOf(flags);
      const url = findEmbedded(folder);
      if (url === undefined)
        throw new Refusal(`no Postgres of its own is running in ${folder}: \`gen-durable start\` starts it`);
      if (flags.json === true) printJson({ url });
      else print(url);
    });
}

function stopCommand(): Command {
  return withJson(withFolder(newCommand("stop", "stop the server, if no process uses it")))
    .option("--force", "stop it under the processes that use it; they wait until a command starts it again")
    .addHelpText(
      "after",
      `\nThe last process that uses the server stops it by itself. One that was killed could not: this command does.\n${examples("gen-durable db stop")}`,
    )
    .action(async (flags: DbFlags) => {
      const { stopEmbedded } = await import("../embedded/attach.js");
      const folder = await folderOf(flags);
      const answer = await stopEmbedded(folder, { force: flags.force === true });
      if (flags.json === true) {
        printJson(answer);
        if (!answer.stopped && answer.reason === "in_use") process.exitCode = EXIT.failure;
        return;
      }
      if (answer.stopped) return print("stopped");
      if (answer.reason === "not_running") return print("it is not running");
      throw new Refusal(
        `${count(answer.users, "process")} use${answer.users === 1 ? "s" : ""} the server: stop your nodes first, or use --force`,
      );
    });
}

function withFolder(command: Command): Command {
  return command.option("-c, --config <path>", "the config file, or the folder it is in");
}

/** The folder that the server belongs to: the config file's, else the current one. The file itself is not loaded. */
async function folderOf(flags: DbFlags): Promise<string> {
  const { findConfigFile } = await import("../configFile.js");
  const config = findConfigFile(process.cwd(), flags.config);
  return config === undefined ? process.cwd() : dirname(config);
}
