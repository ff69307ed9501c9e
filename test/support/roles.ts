// Roles: logins of a test's own, with settings that the engine must not be impressed by. Dropped after the file's last test.

import { randomBytes } from "node:crypto";
import pg from "pg";
import { type TestDatabase, testServer } from "./database.js";

/** What a careful, a careless and a hostile administrator would set, all at once. */
// Values as they stand in ALTER ROLE.
export const STRANGE_SETTINGS: Readonly<Record<string, string>> = {
  default_transaction_isolation: "serializable",
  default_transaction_read_only: "on",
  default_transaction_deferrable: "on",
  statement_timeout: "'1500ms'",
  lock_timeout: "'1s'",
  idle_in_transaction_session_timeout: "'2s'",
  idle_session_timeout: "'3s'",
  search_path: '"$user", nowhere, pg_catalog',
  DateStyle: "'SQL, DMY'",
  IntervalStyle: "sql_standard",
  TimeZone: "'Asia/Kolkata'",
  jit: "on",
  jit_above_cost: "0",
  standard_conforming_strings: "off",
  array_nulls: "off",
  extra_float_digits: "-15",
  enable_nestloop: "off",
  enable_indexscan: "off",
  client_min_messages: "debug1",
};

const made = new Set<string>();
const hooks = globalThis as { afterAll?: (hook: () => Promise<void>) => void };
hooks.afterAll?.(async () => {
  for (const name of made)
    await asSuperuser(testServer().url, [`DROP ROLE IF EXISTS ${name}`]).catch(() => undefined);
});

/** A login on the run's server, with settings in this database. */
export async function createRole(
  database: TestDatabase,
  options: { settings?: Readonly<Record<string, string>>; mayCreate?: boolean } = {},
): Promise<{ name: string; url: string }> {
  const name = `r_${randomBytes(5).toString("hex")}`;
  made.add(name);
  await asSuperuser(database.url, [
    `CREATE ROLE ${name} LOGIN`,
    `GRANT ${options.mayCreate === true ? "CREATE, CONNECT" : "CONNECT"} ON DATABASE ${database.name} TO ${name}`,
    ...Object.entries(options.settings ?? {}).map(
      ([setting, value]) => `ALTER ROLE ${name} IN DATABASE ${database.name} SET ${setting} = ${value}`,
    ),
  ]);
  const url = new URL(database.url);
  url.username = name;
  return { name, url: url.href };
}

async function asSuperuser(url: string, texts: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    for (const text of texts) await client.query(text);
  } finally {
    await client.end();
  }
}
