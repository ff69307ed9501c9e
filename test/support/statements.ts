// Statements: how many the server ran, by name of the session that sent them, read from the server's log.
// The embedded binaries have no pg_stat_statements; `log_statement` of one database does the same for a test.

import type { TestDatabase } from "./database.js";

export interface LoggedStatement {
  /** The session's application_name. */
  application: string;
  /** The statement's text, its first line. */
  text: string;
  /** The name it was prepared under, where it was. */
  name: string | null;
}

const LINE = /\[\d+\] (.*)@(\S+) LOG: {2}(?:statement: |execute ([^:]*): )(.*)$/;

/** Turns logging on for sessions that are opened from now on. */
export async function logStatements(database: TestDatabase): Promise<void> {
  await database.query(`ALTER DATABASE ${database.name} SET log_statement = 'all'`);
}

/** A place in the log: what comes after it is counted. */
export function markStatements(database: TestDatabase): number {
  return database.log().length;
}

/** The statements logged since a mark, by sessions other than the test's own. */
export function statementsSince(database: TestDatabase, mark = 0): LoggedStatement[] {
  const found: LoggedStatement[] = [];
  for (const line of database.log().slice(mark)) {
    const match = LINE.exec(line);
    if (match === null) continue;
    const [, application = "", , name, text = ""] = match;
    if (application.startsWith("test")) continue;
    found.push({ application, text, name: name === undefined || name === "<unnamed>" ? null : name });
  }
  return found;
}
