// Statements: every text that this engine sends to Postgres is a file under sql/, read once a process.
// `:schema` in a file is replaced by the quoted schema name; nothing else is ever put into a text.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

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

/** The statements of one schema. Files are read when first asked for. */
export class Statements {
  readonly schema: string;
  readonly #bySource = new Map<string, Statement>();

  constructor(schema: string) {
    this.schema = schema;
  }

  /** The statement of `sql/<path>.sql`, for example `picker/claim_runnable`. */
  get(path: string): Statement {
    const known = this.#bySource.get(path);
    if (known !== undefined) return known;
    const source = readFileSync(`${SQL_FOLDER}${path}.sql`, "utf8");
    const text = withoutComments(source).replaceAll(/:schema\b/g, () => quoteIdentifier(this.schema));
    const digest = createHash("sha1").update(text).digest("hex").slice(0, 12);
    const statement = { name: `${path.slice(path.lastIndexOf("/") + 1).slice(0, 48)}_${digest}`, text };
    this.#bySource.set(path, statement);
    return statement;
  }
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
