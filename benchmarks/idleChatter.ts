// Idle chatter: what a node without work sends, counted in the server's log.

import { setTimeout as sleep } from "node:timers/promises";
import type { TestDatabase } from "../test/support/database.js";
import type { Bench } from "./bench.js";

export interface IdleOptions {
  seconds: number;
  workers: number;
  /** Makes the table what the node shall idle over. */
  prepare?: (database: TestDatabase) => Promise<void>;
}

/** Statements a second of a node with one queue and otherwise default settings, once its polls have backed off; prints each kind. */
export async function measureIdle(
  bench: Bench,
  name: string,
  { seconds, workers, prepare }: IdleOptions,
): Promise<number> {
  const database = await bench.createDatabase(name);
  await prepare?.(database);
  await database.query(`ALTER DATABASE ${database.name} SET log_statement = 'all'`);
  const node = await bench.startNode(database, { queues: { bench: 10 } }, workers);
  await sleep(seconds * 500);
  const before = engineStatements(bench, database);
  await sleep(seconds * 1_000);
  const statements = engineStatements(bench, database).slice(before.length);
  await node.stop();
  const counts = new Map<string, number>();
  for (const statement of statements) counts.set(statement, (counts.get(statement) ?? 0) + 1);
  for (const [statement, count] of [...counts].sort(([, a], [, b]) => b - a))
    console.log(`  ${statement}: ${(count / seconds).toFixed(2)} a second`);
  return statements.length / seconds;
}

/** Session and name of each statement that the engine has sent to a database. */
function engineStatements(bench: Bench, database: TestDatabase): string[] {
  const pattern = new RegExp(
    `\\] (gen-durable [^@]*)@${database.name} LOG: {2}(?:statement: (.{0,20})|execute (.*?)_[0-9a-f]{12}: )`,
  );
  return bench.log.split("\n").flatMap((line) => {
    const match = pattern.exec(line);
    return match === null ? [] : [`${match[1]}, ${match[3] ?? match[2]}`];
  });
}
