// Statements: every text that this engine sends to Postgres is a file under sql/, read once a thread.
// `:schema` in a file is replaced by the quoted schema name; nothing else is ever put into a text.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { InvariantError } from "../errors.js";

const SQL_FOLDER = fileURLToPath(new URL("../../sql/", import.meta.url));

/** A statement ready to send. `name` is what it is prepared under: unique for the text, stable for its life. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Quotes an identifier for Postgres. */
export function quoteIdentifier(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`;
}

/** The statements of one schema. */
export class Statements {
  readonly schema: string;
  readonly #sources: ReadonlyMap<string, string>;
  readonly #bySource = new Map<string, Statement>();

  constructor(schema: string) {
    this.schema = schema;
    this.#sources = readSources();
  }

  /** The statement of `sql/<path>.sql`, for example `picker/claim_runnable`. */
  get(path: string): Statement {
    const known = this.#bySource.get(path);
    if (known !== undefined) return known;
    const source = this.#sources.get(path);
    if (source === undefined) throw new InvariantError(`there is no statement "${path}"`);
    const text = withoutComments(source).replaceAll(/:schema\b/g, () => quoteIdentifier(this.schema));
    const digest = createHash("sha1").update(text).digest("hex").slice(0, 12);
    const statement = { name: `${path.slice(path.lastIndexOf("/") + 1).slice(0, 48)}_${digest}`, text };
    this.#bySource.set(path, statement);
    return statement;
  }
}

let sources: ReadonlyMap<string, string> | undefined;

/**
 * All texts at once, when a thread first needs any: a node whose package is upgraded while it runs keeps the statements
 * that its code was written for.
 */
function readSources(): ReadonlyMap<string, string> {
  sources ??= new Map(
    readdirSync(SQL_FOLDER, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".sql"))
      .map((file) => [
        file.slice(0, -".sql".length).replaceAll("\\", "/"),
        readFileSync(`${SQL_FOLDER}${file}`, "utf8"),
      ]),
  );
  return sources;
}

/** The migrations' names (`0001_schema`), in order. */
export function migrationNames(): string[] {
  return readdirSync(`${SQL_FOLDER}migrations`)
    .filter((file) => file.endsWith(".sql"))
    .map((file) => file.slice(0, -".sql".length))
    .sort();
}

/** Drops the comment lines, so that headers and remarks are not sent with every unprepared call. */
function withoutComments(source: string): string {
  return source
    .split("\n")
    .map((line) => line.replace(/(^|\s)--.*$/, ""))
    .filter((line) => line.trim() !== "")
    .join("\n");
}
