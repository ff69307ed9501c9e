// `gen-durable grants`: what a role needs that runs nodes and clients, and does not own the schema.

import type { Command } from "commander";
import { Refusal } from "../exit.js";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { print, printJson } from "../output.js";

interface GrantsFlags extends DatabaseFlags, OutputFlags {
  apply?: boolean;
}

export function grantsCommand(): Command {
  return withJson(
    withDatabase(newCommand("grants", "print the rights that a role needs which runs nodes and clients")),
  )
    .argument("<role>", "the role that the nodes and clients connect as")
    .option("--apply", "grant them, as the role of this connection; in one transaction")
    .addHelpText(
      "after",
      `\nThe schema's owner migrates and grants; the nodes run as the other role, with --no-migrate, and may change rows but no\ntable (docs/databases.md).\n${examples("gen-durable migrate --database-url postgres://owner@localhost/app", "gen-durable grants app_runtime | psql postgres://owner@localhost/app", "gen-durable grants app_runtime --apply --database-url postgres://owner@localhost/app")}`,
    )
    .action(async (role: string, flags: GrantsFlags) => {
      const { withDatabaseConnection } = await import("../project.js");
      await withDatabaseConnection(flags, async ({ connection, statements, settings }) => {
        const [found] = await connection.run<{ has_role: boolean; statements: string[] }>(
          statements.get("cli/list_grants"),
          [settings.database.schema, role],
        );
        if (found?.has_role !== true) throw new Refusal(`there is no role "${role}" on this server`);
        if (flags.apply === true) {
          await connection.transaction(async () => {
            for (const statement of found.statements) await connection.command(statement);
          });
        }
        if (flags.json === true)
          printJson({ role, statements: found.statements, applied: flags.apply === true });
        else if (flags.apply === true)
          print(`${role} may run nodes and clients on ${settings.database.schema}`);
        else print(found.statements.map((statement) => `${statement};`).join("\n"));
      });
    });
}
