// What becomes of a flush whose connection dies: nothing is lost, nothing is done twice, whatever the instant.
import { beforeEach, expect, test } from "@jest/globals";
import { TransientError } from "#core/errors.js";
import type { Decision } from "#core/protocol/outcome.js";
import { emptyResult, type Session } from "#flusher/env.js";
import { FlushInterrupted, flush, type Unanswered } from "#flusher/flush.js";
import { fateOf, readServer } from "#flusher/recovery.js";
import { createDatabase } from "../support/database.js";
import {
  awaits,
  children,
  done,
  executingRows,
  flushEnv,
  flusherConnection,
  next,
  outcomeOf,
  recorded,
  retry,
  stop,
} from "../support/outcomes.js";
import { readRow } from "../support/rows.js";
import { until } from "../support/until.js";

const database = await createDatabase();
const connection = await flusherConnection(database);
const env = flushEnv();
const gone = () => new TransientError("CONNECTION_LOST", "the connection was cut by the test");

beforeEach(() => database.query("TRUNCATE gen_durable, signals"));

/** A session that dies at a command or statement, before or after the server has done it. */
function dying(at: string, when: "before" | "after", onDeath?: () => Promise<unknown>): Session {
  const session = recorded(connection);
  const die = async (name: string, go: () => Promise<unknown>) => {
    if (!name.startsWith(at)) return go();
    if (when === "after") await go();
    await onDeath?.();
    throw gone();
  };
  return {
    command: async (text) => {
      await die(text, () => session.command(text));
    },
    // The test's own statements answer as the connection's do.
    run: ((statement, values) => die(statement.name, () => session.run(statement, values))) as Session["run"],
  };
}

async function interrupted(flushing: Promise<unknown>): Promise<FlushInterrupted> {
  const error = await flushing.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof FlushInterrupted)) throw new Error(`not interrupted: ${String(error)}`);
  return error;
}

function asked(unanswered: Unanswered | null): Unanswered {
  if (unanswered === null) throw new Error("nothing is unanswered");
  return unanswered;
}

const decisions: Record<string, Decision> = {
  next: next("b"),
  inline: next("b", { inline: true }),
  retry: retry(),
  await: awaits(["go"]),
  children: children([{}]),
  done: done(),
  stop: stop("x"),
};

test.each(Object.keys(decisions))(
  "FLU-20: %s: an unanswered COMMIT that stands is known by its id, and after a failover by the row",
  async (kind) => {
    const [id = 0] = await executingRows(database, 1, { attempt: 2 });
    const outcome = outcomeOf(id, decisions[kind] ?? done(), { attempt: 2 });
    const {
      unanswered,
      rest,
      done: answered,
    } = await interrupted(flush(dying("COMMIT", "after"), [outcome], env));
    expect([rest, answered.committed, unanswered?.outcomes]).toEqual([[], [], [outcome]]);
    expect(await fateOf(connection, env.statements, asked(unanswered))).toBe("committed");
    const result = unanswered?.result;
    expect([...(result?.committed ?? []), ...(result?.continued ?? [])]).toEqual([outcome]);

    const before = await readRow(database, id);
    const again = await flush(connection, [outcome], { ...env, resent: new Set([outcome]) });
    expect(kind === "inline" ? again.continued : again.committed).toEqual([outcome]);
    expect(again.stale).toEqual([]);
    expect(await readRow(database, id)).toEqual(before);
    expect(await database.one("SELECT count(*) FROM gen_durable WHERE parent_id = $1", [id])).toEqual({
      count: kind === "children" ? 1 : 0,
    });
  },
);

test("an unanswered COMMIT that never arrived is aborted, and sent again", async () => {
  const [id = 0] = await executingRows(database, 1);
  const outcome = outcomeOf(id, done());
  const rollback = () => connection.command("ROLLBACK");
  const { unanswered } = await interrupted(flush(dying("COMMIT", "before", rollback), [outcome], env));
  expect(await fateOf(connection, env.statements, asked(unanswered))).toBe("aborted");
  expect((await flush(connection, [outcome], env)).committed).toEqual([outcome]);
});

test("one still in progress is waited for", async () => {
  const session = await database.session();
  await session.query("BEGIN");
  const { rows } = await session.query("SELECT pg_current_xact_id()::text AS xid");
  const looking = recorded(connection);
  const fate = fateOf(looking, env.statements, { xid: rows[0].xid, result: emptyResult() });
  await until(() => looking.sent.length >= 3);
  await session.query("COMMIT");
  expect(await fate).toBe("committed");
});

test("an id that the server has never heard of is unknown", async () => {
  const unheard = { xid: "99999999999", result: emptyResult() };
  expect(await fateOf(connection, env.statements, unheard)).toBe("unknown");
});

test("R3: an id that a crashed server has given again is not believed", async () => {
  const [id = 0] = await executingRows(database, 1);
  const outcome = outcomeOf(id, done());
  const rollback = () => connection.command("ROLLBACK");
  const { unanswered } = await interrupted(flush(dying("COMMIT", "before", rollback), [outcome], env));
  const { xid } = await database.one<{ xid: string }>("SELECT pg_current_xact_id()::text AS xid");
  const fate = await fateOf(connection, env.statements, { ...asked(unanswered), xid });
  expect(fate).toBe("unknown");
  expect((await flush(connection, [outcome], { ...env, resent: new Set([outcome]) })).committed).toEqual([
    outcome,
  ]);
});

test("a connection that dies before its COMMIT leaves everything to be sent again", async () => {
  const ids = await executingRows(database, 3);
  const outcomes = ids.map((id) => outcomeOf(id, done()));
  const rollback = () => connection.command("ROLLBACK");
  const dead = dying("apply_done", "after", rollback);
  const { unanswered, rest } = await interrupted(flush(dead, outcomes, env));
  expect([unanswered, rest]).toEqual([null, outcomes]);
});

test("what a split batch has committed before the connection died stays answered", async () => {
  const ids = await executingRows(database, 4);
  const outcomes = ids.map((id, i) => outcomeOf(id, i === 3 ? done('"\\u0000"') : done()));
  let commits = 0;
  const session = recorded(connection);
  const dead: Session = {
    run: session.run,
    command: async (text) => {
      if (text === "COMMIT" && ++commits === 2) {
        await connection.command("ROLLBACK");
        throw gone();
      }
      await session.command(text);
    },
  };
  const { done: answered, unanswered, rest } = await interrupted(flush(dead, outcomes, env));
  const all = [...answered.committed, ...(unanswered?.outcomes ?? []), ...rest];
  expect(answered.committed).toHaveLength(2);
  expect(all.map((o) => o.id).sort((a, b) => a - b)).toEqual(ids);
});

test("a failure that no splitting cures keeps what was committed before it, too", async () => {
  const ids = await executingRows(database, 4);
  const outcomes = ids.map((id, i) => outcomeOf(id, i === 3 ? done('"\\u0000"') : done()));
  let begun = 0;
  const session = recorded(connection);
  const broken: Session = {
    run: session.run,
    command: async (text) => {
      if (text.startsWith("BEGIN") && ++begun === 3)
        throw Object.assign(new Error("no such table"), { code: "42P01" });
      await session.command(text);
    },
  };
  const { done: answered, unanswered, rest, cause } = await interrupted(flush(broken, outcomes, env));
  expect([answered.committed.length, unanswered, rest.length]).toEqual([2, null, 2]);
  expect(cause).toMatchObject({ code: "42P01" });
});

test("the server names itself and its timeline", async () => {
  expect(await readServer(connection, env.statements)).toMatch(/^\d+\/[0-9A-F]{8}$/);
});
