// Main: the command line. Each command is a file under commands/; this one puts them together and ends the process.
// A command imports what it works with when it runs, so that help and mistakes are answered at once.

import { Command, CommanderError } from "commander";
import { cancelCommand } from "./commands/cancel.js";
import { dbCommand } from "./commands/db.js";
import { grantsCommand } from "./commands/grants.js";
import { initCommand } from "./commands/init.js";
import { insertCommand } from "./commands/insert.js";
import { limitsCommand } from "./commands/limits.js";
import { listCommand } from "./commands/list.js";
import { migrateCommand } from "./commands/migrate.js";
import { nodesCommand } from "./commands/nodes.js";
import { retryCommand } from "./commands/retry.js";
import { showCommand } from "./commands/show.js";
import { signalCommand } from "./commands/signal.js";
import { startCommand } from "./commands/start.js";
import { statusCommand } from "./commands/status.js";
import { versionsCommand } from "./commands/versions.js";
import { EXIT, reportError } from "./exit.js";
import { tolerateClosedPipes } from "./output.js";
import { packageVersion } from "./version.js";

const AFTER_HELP = `
The database is the one that --database-url, GEN_DURABLE_DATABASE_URL, the config file, DATABASE_URL or PG* name, in this
order. With none of them the folder has a Postgres of its own, in .gen-durable/.

Exit status: 0 done, 1 it did not work, 2 the command line or the configuration is wrong.

Examples:
  $ gen-durable init
  $ gen-durable start --workers 4
  $ gen-durable insert hello '{"name": "world"}'
  $ gen-durable status
`;

function buildProgram(): Command {
  const program = new Command("gen-durable")
    .description("Durable execution for TypeScript on Postgres: an instance is a row, not a process.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print help")
    .helpCommand("help [command]", "print a command's help")
    .addHelpText("after", AFTER_HELP);
  for (const command of [
    initCommand(),
    startCommand(),
    migrateCommand(),
    grantsCommand(),
    insertCommand(),
    signalCommand(),
    statusCommand(),
    listCommand(),
    showCommand(),
    retryCommand(),
    cancelCommand(),
    nodesCommand(),
    versionsCommand(),
    limitsCommand(),
    dbCommand(),
  ])
    program.addCommand(command);
  for (const command of [program, ...program.commands, ...program.commands.flatMap((it) => it.commands)]) {
    command
      .exitOverride()
      .helpOption("-h, --help", "print help")
      .showHelpAfterError(`(${helpCall(command)} tells more)`);
  }
  return program;
}

function helpCall(command: Command): string {
  const names: string[] = [];
  for (let it: Command | null = command; it !== null; it = it.parent) names.unshift(it.name());
  return `${names.join(" ")} --help`;
}

/** Runs one command line and returns the exit status. */
async function run(argv: readonly string[]): Promise<number> {
  try {
    await buildProgram().parseAsync([...argv]);
    return Number(process.exitCode ?? EXIT.ok);
  } catch (error) {
    // commander has printed its own; help and the version are no errors.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    return reportError(error);
  }
}

/** An empty variable states nothing, for the flags that read theirs here as for the configuration. */
function forgetEmptyVariables(): void {
  for (const [name, value] of Object.entries(process.env))
    if (name.startsWith("GEN_DURABLE_") && value === "") delete process.env[name];
}

process.setSourceMapsEnabled(true);
forgetEmptyVariables();
tolerateClosedPipes();
process.exitCode = await run(process.argv);
