// Options: the flags that several commands share, and how their values are read. Flags carry no defaults of their own:
// what is not given comes from the environment, the config file, or the engine.

import { readFileSync } from "node:fs";
import { Command, InvalidArgumentError, Option } from "commander";

/** Flags that say which database a command works on. */
export interface DatabaseFlags {
  config?: string;
  databaseUrl?: string;
  schema?: string;
  embedded?: boolean;
}

export interface OutputFlags {
  json?: boolean;
}

/** A command with its name, arguments and one line of description. */
export function newCommand(name: string, description: string): Command {
  return new Command(name).description(description);
}

/** Adds the flags that say which database a command works on. */
export function withDatabase(command: Command): Command {
  return command
    .option("-c, --config <path>", "the config file, or the folder it is in")
    .addOption(
      new Option("--database-url <url>", "the database: postgres://user:password@host:port/name").conflicts(
        "embedded",
      ),
    )
    .option("--schema <name>", "the Postgres schema of the engine's objects")
    .option("--embedded", "use the project's own Postgres, whatever else is configured");
}

/** Adds --json. */
export function withJson(command: Command): Command {
  return command.option("--json", "print JSON");
}

/** A whole number of at least `least`, and at most `most` where that is given. */
export function integer(least: number, most?: number): (text: string) => number {
  const range = most === undefined ? `of at least ${least}` : `from ${least} to ${most}`;
  return (text) => {
    const value = Number(text);
    if (text.trim() === "" || !Number.isSafeInteger(value) || value < least || value > (most ?? value))
      throw new InvalidArgumentError(`Expected a whole number ${range}.`);
    return value;
  };
}

/** A whole number, negative ones too. */
export function anyInteger(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isSafeInteger(value))
    throw new InvalidArgumentError("Expected a whole number.");
  return value;
}

/** An address to listen on. An empty one would mean all of the machine's. */
export function address(text: string): string {
  if (text.trim() === "") throw new InvalidArgumentError("Expected an address, for example 0.0.0.0.");
  return text;
}

/** A time: ISO 8601, with a zone or in this machine's. */
export function time(text: string): Date {
  const value = new Date(text);
  if (Number.isNaN(value.getTime()))
    throw new InvalidArgumentError("Expected a time, for example 2030-01-31T09:00:00Z.");
  return value;
}

/** An instance's id. */
export function instanceId(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < 1)
    throw new InvalidArgumentError("Expected an instance's id, a whole number.");
  return value;
}

/** Instances by what names them: ids, or correlation keys (`byKey`: also where they look like ids). */
export function targetsOf(texts: readonly string[], byKey: boolean): (number | string)[] {
  return texts.map((text) => (/^\d+$/.test(text) && !byKey ? instanceId(text) : text));
}

/** JSON from the command line; `-` reads it from stdin. */
export function json(text: string): unknown {
  try {
    return JSON.parse(text === "-" ? readFileSync(0, "utf8") : text);
  } catch (error) {
    throw new InvalidArgumentError(
      `Expected JSON (${(error as Error).message}). Quote it for the shell: '{"order": 42}'.`,
    );
  }
}

/** Collects a flag that may be given several times. */
export function collect(value: string, previous: string[] | undefined): string[] {
  return [...(previous ?? []), ...value.split(",").filter((part) => part !== "")];
}

/** Examples below a command's help. */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}\n`;
}
