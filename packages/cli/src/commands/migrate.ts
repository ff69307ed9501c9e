// `gen-durable migrate`: brings the schema up to this version.

import type { Command } from "commander";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { count, print, printJson } from "../output.js";

export function migrateCommand(): Command {
  return withJson(
    withDatabase(newCommand("migrate", "create the engine's schema, or bring it up to this version")),
  )
    .addHelpText(
      "after",
      `\nMigrations only go forward, and may be run again and from many places at once. \`start\` migrates by itself unless\n--no-migrate is given.\n${examples("gen-durable migrate", "gen-durable migrate --database-url postgres://localhost/app --schema jobs")}`,
    )
    .action(async (flags: DatabaseFlags & OutputFlags) => {
      const { openConnection, withProject } = await import("../project.js");
      const { migrate } = await import("#core/database/migrate.js");
      const { explainMigration } = await import("../node/schema.js");
      await withProject(flags, { createsEmbedded: true }, async (project) => {
        const connection = await openConnection(project);
        try {
          const { schema } = project.settings.database;
          const report = await migrate(connection, schema).catch((error) => {
            throw explainMigration(error, schema);
          });
          if (flags.json === true) return printJson({ schema, ...report });
          const applied =
            report.applied.length === 0
              ? "nothing to do"
              : `${count(report.applied.length, "migration")} applied: ${report.applied.join(", ")}`;
          print(`schema ${schema} is at version ${report.version}; ${applied}`);
        } finally {
          await connection.close();
        }
      });
    });
}
