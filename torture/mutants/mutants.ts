// Mutants: each breaks one rule that the design rests on, and names what brings it to light.

import type { Change, Mutant } from "./mutant.js";

const GUARD_JS = "return row.executing && row.locked_by === outcome.claim && row.visit === outcome.visit;";
const GUARD_SQL =
  "WHERE g.id = ANY (ARRAY[b.id]) AND g.locked_by = b.claim AND g.status::text = 'executing' AND g.visit = b.visit";
const APPLY = "sql/flusher/apply_outcomes.sql";
const PLAIN_GUARD_SQL = "AND g.locked_by = ANY ($2::text[]) AND g.status::text = 'executing'";
const PLAIN_MOVES = ["done", "next", "inline"].map((kind) => `sql/flusher/apply_${kind}.sql`);

/** Every statement that writes outcomes, with another guard in place of its own. */
const guardedBy = (apply: string, plain: string): Change[] => [
  { file: APPLY, from: GUARD_SQL, to: apply },
  ...PLAIN_MOVES.map((file) => ({ file, from: PLAIN_GUARD_SQL, to: plain })),
];

export const MUTANTS: readonly Mutant[] = [
  {
    name: "no-guard",
    about: "an outcome commits whoever owns the row",
    changes: [
      { file: "flusher/lock.js", from: GUARD_JS, to: "return row.executing;" },
      ...guardedBy(
        "WHERE g.id = ANY (ARRAY[b.id]) AND g.status::text = 'executing'",
        // A parameter that nobody reads has no type.
        "AND $2::text[] IS NOT NULL AND g.status::text = 'executing'",
      ),
    ],
    noticedBy: [3],
    work: ["slow", "cancel", "chain"],
    faults: ["node stopped and continued", "connections black-holed"],
  },
  {
    name: "unfenced-claim",
    about: "a late outcome of an earlier claim of the same node commits",
    changes: [
      {
        file: "flusher/lock.js",
        from: GUARD_JS,
        to: 'return row.executing && row.locked_by?.split("/")[0] === outcome.claim.split("/")[0];',
      },
      ...guardedBy(
        "WHERE g.id = ANY (ARRAY[b.id]) AND split_part(g.locked_by, '/', 1) = split_part(b.claim, '/', 1) AND g.status::text = 'executing'",
        "AND split_part(g.locked_by, '/', 1) = split_part(($2::text[])[1], '/', 1) AND g.status::text = 'executing'",
      ),
    ],
    noticedBy: [3],
    work: ["cancel"],
    faults: [],
    nodes: 1,
  },
  {
    name: "no-recheck",
    about: "a step that parks does not look for signals that came meanwhile",
    changes: [
      {
        file: APPLY,
        from: "AND s.id <> ALL (CAST(u.seen AS bigint[])) LIMIT 1)",
        to: "AND s.id <> ALL (CAST(u.seen AS bigint[])) AND false LIMIT 1)",
      },
    ],
    noticedBy: [7, 10],
    work: ["wait", "pack", "upsert"],
    faults: [],
  },
  {
    name: "unlocked-delivery",
    about: "a signal looks at its target without locking it, and misses a park",
    changes: [
      {
        file: "sql/client/deliver_signals.sql",
        from: "  ORDER BY g.id\n  FOR NO KEY UPDATE\n",
        to: "  ORDER BY g.id\n",
      },
    ],
    noticedBy: [7, 10],
    work: ["wait", "pack", "upsert"],
    faults: ["commits slow"],
  },
  {
    name: "deaf-delivery",
    about: "a signal is stored and wakes nobody",
    changes: [
      {
        file: "sql/client/deliver_signals.sql",
        from: "target.status = 'awaiting_signal' AND target.awaits && arrived.names",
        to: "target.status = 'awaiting_signal' AND target.awaits && arrived.names AND false",
      },
    ],
    noticedBy: [7, 10],
    work: ["wait", "pack"],
    faults: [],
  },
  {
    name: "ignored-dedup-key",
    about: "a redelivered signal is stored again",
    changes: [
      {
        file: "sql/client/deliver_signals.sql",
        from: "SELECT reached_id, name, payload, dedup_key\n  FROM reached",
        to: "SELECT reached_id, name, payload, NULL\n  FROM reached",
      },
    ],
    noticedBy: [0, 9],
    work: ["pack", "wait"],
    faults: [],
  },
  {
    name: "greedy-consumption",
    about: "a retry and a park consume what the step was handed",
    changes: [
      {
        file: "flusher/riders.js",
        from: 'if (!moved || (kind !== "next" && kind !== "children"))',
        to: 'if (transition.kind === "done" || transition.kind === "stop")',
      },
    ],
    noticedBy: [0, 1, 7, 10],
    work: ["wait", "pack"],
    faults: [],
  },
  {
    name: "slot-credited-twice",
    about: "a freed gate slot is given back twice",
    changes: [
      {
        file: "sql/flusher/credit_slots.sql",
        from: "available = least(b.available + greatest(f.slots - b.debt, 0), b.capacity)",
        to: "available = least(b.available + 2 * greatest(f.slots - b.debt, 0), b.capacity)",
      },
    ],
    noticedBy: [5],
    work: ["gate"],
    faults: [],
  },
  {
    name: "slot-never-credited",
    about: "a freed gate slot is not given back",
    changes: [
      {
        file: "flusher/riders.js",
        from: "    if (slots.length === 0)\n        return [];",
        to: "    return [];",
      },
    ],
    noticedBy: [5, 10],
    work: ["gate"],
    faults: [],
  },
  {
    name: "gate-off-by-one",
    about: "a gate admits one more than its limit",
    changes: [
      {
        file: "sql/limiter/lock_buckets.sql",
        from: "SELECT w.kind, w.key, w.wanted, c.rate, c.capacity AS total",
        to: "SELECT w.kind, w.key, w.wanted, c.rate, c.capacity + CASE WHEN w.kind = 'conc' THEN 1 ELSE 0 END AS total",
      },
    ],
    noticedBy: [5],
    work: ["gate"],
    faults: [],
  },
  {
    name: "rate-half-paid",
    about: "a step takes half of its tokens",
    changes: [
      {
        file: "coordinator/limiter/admission.js",
        from: "ratePool?.takeTokens(weight);",
        to: "ratePool?.takeTokens(weight / 2);",
      },
    ],
    noticedBy: [6],
    work: ["rate"],
    faults: [],
  },
  {
    name: "exclusive-key-shared",
    about: "the unique index of exclusive keys is none, and a pick does not look whether the key executes",
    changes: [
      {
        file: "sql/migrations/0001_schema.sql",
        from: "CREATE UNIQUE INDEX gen_durable_concurrency_active",
        to: "CREATE INDEX gen_durable_concurrency_active",
      },
      {
        file: "sql/picker/lock_candidates.sql",
        from: "WHERE e.concurrency_key = k.key AND e.status = 'executing' AND e.concurrency_shard IS NULL LIMIT 1) AS busy",
        to: "WHERE e.concurrency_key = k.key AND e.status = 'executing' AND false LIMIT 1) AS busy",
      },
    ],
    noticedBy: [4],
    work: ["key"],
    faults: [],
  },
  {
    name: "join-counts-double",
    about: "an ended child is counted off its parent twice",
    changes: [{ file: "flusher/riders.js", from: "ended: 1 }", to: "ended: 2 }" }],
    noticedBy: [8],
    work: ["family"],
    faults: [],
  },
  {
    name: "join-forgets-siblings",
    about: "of the siblings that end in one batch one is counted",
    changes: [{ file: "flusher/riders.js", from: "known.ended++;", to: "known.ended += 0;" }],
    noticedBy: [0, 8, 10],
    work: ["family"],
    faults: [],
  },
  {
    name: "impatient-reaper",
    about: "leases are taken back while they run",
    changes: [
      {
        file: "sql/reaper/lock_expired.sql",
        from: "g.lease_expires_at < coalesce($3::timestamptz, now())",
        to: "g.lease_expires_at < coalesce($3::timestamptz, now()) + interval '4500 ms'",
      },
    ],
    noticedBy: [3],
    work: ["slow", "chain"],
    faults: [],
  },
  {
    name: "blamed-neighbours",
    about: "every row of a lost thread or a draining node is charged a crash",
    changes: [
      {
        file: "flusher/giveBack.js",
        from: "plainArray(held.map(({ lost }) => lost.begun))",
        to: "plainArray(held.map(() => true))",
      },
    ],
    noticedBy: [12],
    work: ["chain", "slow"],
    faults: ["node leaves and joins", "thread exits", "thread blocked"],
  },
  {
    name: "dropped-when-locked",
    about: "an outcome whose row somebody has locked is dropped as stale",
    changes: [
      {
        file: "flusher/lock.js",
        from: "(rows.unlocked.has(outcome.id) ? batch.locked : batch.stale).push(outcome);",
        to: "batch.stale.push(outcome);",
      },
    ],
    noticedBy: [3, 10],
    work: ["wait", "pack", "upsert", "cancel"],
    faults: [],
  },
  {
    name: "forgotten-identity",
    about: "a correlation key is free while its instance executes",
    changes: [
      {
        file: "sql/migrations/0001_schema.sql",
        from: "CASE WHEN status = ANY (correlation_scope) THEN correlation_key END",
        to: "CASE WHEN status = ANY (correlation_scope) AND status <> 'executing' THEN correlation_key END",
      },
    ],
    noticedBy: [9, 0],
    work: ["identity"],
    faults: [],
  },
  {
    name: "ignored-cancel",
    about: "the outcome of a step that was asked to cancel is taken as it is",
    changes: [
      {
        file: "flusher/lock.js",
        from: "const decision = row.cancelled === null",
        to: "const decision = true",
      },
    ],
    noticedBy: [0],
    work: ["cancel"],
    faults: [],
  },
  {
    name: "unlocked-claim",
    about: "a pick does not lock its candidates, and two nodes claim one row",
    changes: [
      {
        file: "sql/picker/claim_runnable.sql",
        from: "                   LIMIT $2::int\n                   FOR NO KEY UPDATE SKIP LOCKED",
        to: "                   LIMIT $2::int",
      },
    ],
    noticedBy: [3],
    work: ["chain"],
    faults: [],
    nodes: 3,
  },
  {
    name: "forgotten-state",
    about: "a transition keeps the state that the row had",
    changes: [
      {
        file: APPLY,
        from: "state = coalesce(CAST(b.state AS jsonb), g.state)",
        to: "state = CASE WHEN g.id % 7 = 0 THEN g.state ELSE coalesce(CAST(b.state AS jsonb), g.state) END",
      },
    ],
    noticedBy: [3, 10],
    work: ["chain", "retry"],
    faults: [],
  },
  {
    name: "hasty-acknowledgement",
    about: "a commit is acknowledged before it is made",
    changes: [
      {
        file: "flusher/flush.js",
        from: "await session.command(env.transaction.commit);",
        to: "void new Promise((resolve) => setTimeout(resolve, 40)).then(() => session.command(env.transaction.commit)).catch(() => undefined);",
      },
    ],
    noticedBy: [2, 3],
    work: ["ahead"],
    faults: [],
  },
  {
    name: "hasty-answer",
    about: "a signal is answered before it is committed",
    changes: [
      {
        file: "core/client/session.js",
        from: '            if (opened.stated === "")\n',
        to: `            if (path === "client/deliver_signals") {
                const client = await opened.pool.connect();
                try {
                    await client.query(command("BEGIN"));
                    const rows = rowsOf(await client.query(query));
                    setTimeout(() => client.query(command("COMMIT")).then(() => client.release(), () => client.release(true)), 60);
                    return rows;
                }
                catch (error) {
                    client.release(true);
                    throw error;
                }
            }
            if (opened.stated === "")\n`,
      },
    ],
    noticedBy: [1],
    work: ["wait"],
    faults: ["callers reset", "postgres killed"],
  },
  {
    name: "unkept-commit",
    about: "commits do not wait for the disk",
    changes: [
      {
        file: "sql/node/state_session.sql",
        from: "  ('jit', 'off'),\n",
        to: "  ('jit', 'off'), ('synchronous_commit', 'off'),\n",
      },
    ],
    noticedBy: [1],
    work: ["wait", "timer"],
    faults: ["postgres killed", "postgres stopped at once"],
  },
  {
    name: "no-reaper",
    about: "a claim whose node is gone is never taken back",
    changes: [
      {
        file: "sql/reaper/lock_expired.sql",
        from: " WHERE g.status = 'executing'\n   AND CASE",
        to: " WHERE g.status = 'executing' AND false\n   AND CASE",
      },
    ],
    noticedBy: [10],
    work: ["slow", "chain"],
    faults: ["node killed"],
    seconds: 20,
  },
  {
    name: "late-timeout",
    about: "an await's deadline is a year too late",
    changes: [
      {
        file: APPLY,
        from: "await_deadline = CASE WHEN b.kind = 'await' AND b.found IS NULL THEN b.due END",
        to: "await_deadline = CASE WHEN b.kind = 'await' AND b.found IS NULL THEN b.due + interval '1 year' END",
      },
    ],
    noticedBy: [10],
    work: ["identity", "cancel"],
    faults: [],
    seconds: 10,
  },
  {
    name: "forgotten-deferral",
    about: "an outcome that is put off is not looked at again",
    changes: [
      {
        file: "flusher/flusher.js",
        from: "this.#arrivals.putOff(arrival, reason, endedAtMs);",
        to: "",
      },
    ],
    noticedBy: [10],
    work: ["wait", "pack", "upsert", "family"],
    faults: [],
    seconds: 20,
  },
  {
    name: "unlocked-parent",
    about: "ended children are counted off parents that are not locked with them",
    changes: [
      {
        file: "flusher/lock.js",
        from: "[...outcomes.map(({ id }) => id), ...parents]",
        to: "outcomes.map(({ id }) => id)",
      },
    ],
    noticedBy: [11],
    work: ["family"],
    faults: [],
    nodes: 3,
    sizeMax: 400,
  },
  {
    name: "rows-as-they-come",
    about: "a flush waits for its rows and their parents in the order of its batch",
    changes: [
      {
        file: "sql/flusher/lock_batch.sql",
        from: "  ORDER BY g.id\n  FOR NO KEY UPDATE OF g SKIP LOCKED\n",
        to: "  ORDER BY array_position($1::bigint[], g.id)\n  FOR NO KEY UPDATE OF g\n",
      },
    ],
    noticedBy: [11],
    work: ["family"],
    faults: [],
    nodes: 3,
  },
  {
    name: "slot-of-a-chain-freed",
    about: "a chain that runs on gives its gate slot back and keeps it",
    changes: [
      {
        file: "flusher/riders.js",
        from: 'slot !== null && (transition.kind !== "inline" || transition.setsKey === true)',
        to: "slot !== null",
      },
    ],
    noticedBy: [5],
    work: ["ahead"],
    faults: [],
  },
  {
    name: "told-twice",
    about: "a lost row that is told of twice gives its gate slot back twice",
    changes: [
      {
        file: "flusher/giveBack.js",
        from: "const copiesOf = groupCopies(rows);",
        to: "const copiesOf = new Map(rows.map((row) => [row, [row]]));",
      },
    ],
    noticedBy: [5, 12],
    work: ["ahead", "gate"],
    faults: ["thread exits", "thread blocked"],
  },
];
