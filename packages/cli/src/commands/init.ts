// `gen-durable init`: a config file and a first machine that runs. Never overwrites.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { UsageError } from "#core/errors.js";
import { Refusal } from "../exit.js";
import { examples, newCommand, type OutputFlags, withJson } from "../options.js";
import { print, printJson, stdoutColors } from "../output.js";

const CONFIG = `import { defineConfig } from "gen-durable";

export default defineConfig({
  // Modules that export machines and jobs; every executor thread imports them.
  fsms: ["./fsms/*.ts"],
  // How many steps of a queue one node runs at once.
  queues: { default: 10 },
  // Without a database here, in DATABASE_URL or in PG*, the folder gets a Postgres of its own, in .gen-durable/.
  // database: { url: process.env.MY_DATABASE_URL },
});
`;

const MACHINE = `import { defineFsm } from "gen-durable";
import { z } from "zod";

// An instance of this machine is a row, not a process: the state that a step hands over is committed before the next
// step runs. Kill the node between the two steps and start it again: the instance goes on where it was.
export const hello = defineFsm({
  name: "hello",
  version: 1,
  state: z.object({ name: z.string().default("world"), greeting: z.string().default("") }),
  steps: {
    greet: (ctx) => {
      const greeting = \`Hello, \${ctx.state.name}!\`;
      return ctx.next("tell", { ...ctx.state, greeting }, { delayMs: 1_000 });
    },
    tell: (ctx) => {
      ctx.log.info(ctx.state.greeting);
      return ctx.done({ greeting: ctx.state.greeting });
    },
  },
});
`;

interface File {
  path: string;
  text: string;
}

export function initCommand(): Command {
  return withJson(
    newCommand("init", "write a config file and a first machine that runs").argument(
      "[folder]",
      "where to",
      ".",
    ),
  )
    .addHelpText(
      "after",
      `\nFiles that are there already stay as they are.\n${examples("gen-durable init", "gen-durable init my-project")}`,
    )
    .action(async (argument: string, flags: OutputFlags) => {
      const { findConfigFile } = await import("../configFile.js");
      const folder = resolve(argument);
      const existing = existsSync(folder) ? findConfigFile(folder) : undefined;
      if (existing !== undefined)
        throw new Refusal(`${existing} is there already: this folder has been set up before`);
      const files: File[] = [
        { path: join(folder, "gen-durable.config.ts"), text: CONFIG },
        { path: join(folder, "fsms", "hello.ts"), text: MACHINE },
      ];
      const written = files.filter((file) => writeNew(file)).map(({ path }) => path);
      const hints = hintsFor(folder);
      if (flags.json === true) return printJson({ folder, written, hints });
      const { green, bold } = stdoutColors();
      for (const { path } of files) {
        const mark = written.includes(path) ? green("wrote") : "kept ";
        print(`${mark} ${relative(process.cwd(), path)}`);
      }
      if (hints.length > 0)
        print(
          `\n${bold("For your editor and for production:")}\n${hints.map((hint) => `  ${hint}`).join("\n")}`,
        );
      const cd = folder === process.cwd() ? "" : `  cd ${relative(process.cwd(), folder)}\n`;
      print(
        `\n${bold("Now:")}\n${cd}  npx gen-durable start                               # in one terminal\n  npx gen-durable insert hello '{"name": "durable"}'  # in another\n  npx gen-durable list`,
      );
    });
}

/** Writes a file that is not there; says whether it did. */
function writeNew({ path, text }: File): boolean {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw new UsageError("INIT", `cannot write ${path}: ${(error as Error).message}`, { cause: error });
  }
}

/** What the project's package.json lacks. */
function hintsFor(folder: string): string[] {
  const file = join(folder, "package.json");
  if (!existsSync(file)) return ["npm init -y && npm pkg set type=module", "npm install gen-durable zod"];
  let manifest: {
    type?: unknown;
    dependencies?: Record<string, unknown>;
    devDependencies?: Record<string, unknown>;
  };
  try {
    manifest = JSON.parse(readFileSync(file, "utf8")) as typeof manifest;
  } catch (error) {
    return [`${file} is not JSON: ${(error as Error).message}`];
  }
  const installed = { ...manifest.dependencies, ...manifest.devDependencies };
  const missing = ["gen-durable", "zod"].filter((name) => installed[name] === undefined);
  return [
    ...(manifest.type === "module" ? [] : ["npm pkg set type=module"]),
    ...(missing.length > 0 ? [`npm install ${missing.join(" ")}`] : []),
  ];
}
