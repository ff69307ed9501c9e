// Plain moves: what many rows do alike is written by statements of their own, to the same effect.
import { beforeEach, expect, test } from "@jest/globals";
import { flush } from "#flusher/flush.js";
import { createDatabase } from "../support/database.js";
import {
  done,
  executingRows,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  recorded,
} from "../support/outcomes.js";
import { insertSignal, readRow } from "../support/rows.js";

const database = await createDatabase();
const connection = await flusherConnection(database);
const env = flushEnv({ asOf: new Date("2031-01-01T00:00:00Z") });

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

/** A row on which everything that a move might leave behind is set. */
const WORN = {
  ...{ state: { old: 1 }, attempt: 2, crashes: 1, reaps: 1, startedInMs: -5, leaseInMs: 50_000 },
  ...{ rate_limit: "r", weight: 3, awaits: ["go"], await_seen: [7], wake_reason: "signal" as const },
  ...{
    concurrency_key: "g:1",
    last_error: "once",
    result: { old: 1 },
    correlation_key: null,
    children_pending: 0,
  },
};

const outcome = (id: number, decision: Parameters<typeof outcomeOf>[1]) =>
  outcomeOf(id, decision, { attempt: 2 });

/** What is the row's own: only whether there is something. */
const OWN = ["id", "concurrency_key"];

/** A row for comparing: of an instant, whether it is that of the flush. */
function comparable(row: Record<string, unknown>): Record<string, unknown> {
  const told = ([column, value]: [string, unknown]): [string, unknown] => {
    if (value instanceof Date) return [column, value.getTime() === env.asOf?.getTime() ? "as of" : "before"];
    return [column, OWN.includes(column) ? value !== null : value];
  };
  return { ...Object.fromEntries(Object.entries(row).map(told)), correlation_key: "k" };
}

const MOVES = [
  ["apply_done", done('{"a":[1,"\\u00e9\\"}"]}')],
  ["apply_done", done()],
  ["apply_next", next("b", { state: '{"n":1}' })],
  ["apply_next", next('quoted "b"', { state: "" })],
  ["apply_inline", next("b", { inline: true, state: '{"n":1}' })],
  ["apply_inline", next("b", { inline: true, state: "" })],
] as const;

test.each(MOVES)("%s writes what apply_outcomes writes (%j)", async (name, decision) => {
  const spec = (n: number) => ({
    ...WORN,
    concurrency_key: `g:${n}`,
    correlation_key: `k${n}`,
    correlation_scope: [],
  });
  const [alone = 0] = await executingRows(database, 1, spec(1));
  const [one = 0] = await executingRows(database, 1, spec(2));
  const [two = 0] = await executingRows(database, 1, spec(3));
  await insertSignal(database, alone, "unread", 1);
  await insertSignal(database, two, "unread", 1);
  const session = recorded(connection);
  const single = await flush(session, [outcome(alone, decision)], env);
  const pair = await flush(session, [outcome(one, decision), outcome(two, decision)], env);

  expect(session.sent).toEqual([
    ...[
      "BEGIN",
      "lock_batch",
      "apply_outcomes",
      ...session.sent.slice(3, session.sent.indexOf("COMMIT")),
      "COMMIT",
    ],
    ...["BEGIN", "lock_batch", name, ...session.sent.slice(session.sent.indexOf("COMMIT") + 4, -1), "COMMIT"],
  ]);
  const [expected, ...rows] = await Promise.all(
    [alone, one, two].map(async (id) => comparable(await readRow(database, id))),
  );
  for (const row of rows) expect(row).toEqual(expected);
  expect(pair.pokes).toEqual(single.pokes);
  expect([...pair.inputs.values()]).toEqual(
    [...single.inputs.values()].map((inputs) => ({ ...inputs, inbox: expect.any(String) })),
  );
  const left = await database.query(
    "SELECT target_id FROM signals WHERE consumed_at IS NULL AND target_id = $1",
    [alone],
  );
  expect(
    await database.query("SELECT FROM signals WHERE consumed_at IS NULL AND target_id = $1", [two]),
  ).toHaveLength(left.length);
});

test("few plain moves go with the others, many have their own statement; a due time, a limit or a key makes a move others' business", async () => {
  const sent = async (decisions: readonly Parameters<typeof outcomeOf>[1][]) => {
    const ids = await executingRows(database, decisions.length);
    const session = recorded(connection);
    const { committed, continued } = await flush(
      session,
      ids.map((id, i) => outcomeOf(id, decisions[i] ?? done())),
      env,
    );
    expect(committed.length + continued.length).toBe(decisions.length);
    return session.sent.filter((name) => name.startsWith("apply"));
  };
  const many = <T>(value: T, count = 40): T[] => Array.from({ length: count }, () => value);
  expect(await sent([done(), next("b")])).toEqual(["apply_outcomes"]);
  expect(await sent([...many(done()), next("b")])).toEqual(["apply_done", "apply_outcomes"]);
  expect(await sent([...many(done()), ...many(next("b")), ...many(next("b", { inline: true }))])).toEqual([
    ...["apply_done", "apply_next", "apply_inline"],
  ]);
  expect(await sent(many(next("b", { due: { delayMs: 5 } })))).toEqual(["apply_outcomes"]);
  expect(await sent(many(next("b", { rateLimit: "r" })))).toEqual(["apply_outcomes"]);
  expect(await sent(many(next("b", { weight: 2 })))).toEqual(["apply_outcomes"]);
  expect(await sent(many(next("b", { key: null })))).toEqual(["apply_outcomes"]);
});
