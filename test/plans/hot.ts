// Hot: every statement that runs for each batch, pick, flush, signal, wait, insert, reap or timer, with what it is asked about in a table
// of table.ts; and every other statement with why it is not among them. A file under sql/ that is in neither list fails a test.

import { CLAIM, idsOf, type Section } from "./table.js";

/** Whose session sends it: each states its own planner settings. */
export type Sender = "picker" | "keeper" | "flusher" | "client";

export interface HotStatement {
  sender: Sender;
  /** Parameters for a batch of so many, as text; the table has so many rows. */
  params(batch: number, rows: number): (string | null)[];
  /** Looks at a bounded window that does not depend on the batch. */
  windowRows?: number;
}

const list = (values: readonly (string | number)[]): string => `{${values.join(",")}}`;
const all = (value: string | number, count: number): string => list(Array(count).fill(value));
const json = (value: string, count: number): string => `[${Array(count).fill(value).join(",")}]`;

const ids =
  (section: Section) =>
  (batch: number, rows: number): string =>
    list(idsOf(rows, section, batch));

const executing = ids("executing");
/** A JSON object: the same for each of so many executing rows. */
const byId = (value: string, batch: number, rows: number): string =>
  `{${idsOf(rows, "executing", batch)
    .map((id) => `"${id}":${value}`)
    .join(",")}}`;
const owned = (batch: number, rows: number): string[] => [executing(batch, rows), all(CLAIM, batch)];

/** Parameters of apply_outcomes: one kind for all. */
function outcomes(kind: string, batch: number, rows: number): (string | null)[] {
  const awaits = kind === "await";
  return [
    ...[...owned(batch, rows), all(2, batch), all(kind, batch), all(0, batch)],
    kind === "next" || awaits ? all("start", batch) : "{}",
    ...["{}", "{}", "{}", "{}", "{}", "{}", all(1, batch), "{}", all("f", batch)],
    awaits ? all('"{go}"', batch) : "{}",
    awaits ? all('"{}"', batch) : "{}",
    ...["{}", "60000", null],
  ];
}

const inserted = (batch: number, keyed: boolean): (string | null)[] => [
  ...["{plain}", "{1}", "{start}", json('{"n":0}', batch), "{default}", "{0}", "{}", "{}", "{}", "{}", "{1}"],
  ...(keyed
    ? [list(Array.from({ length: batch }, (_, n) => `new:${n}`)), '{"{runnable,executing}"}']
    : ["{}"]),
  ...["gen_durable_test", "{default}"],
];

const gates = (batch: number): string[] => Array.from({ length: batch }, (_, n) => `gate:${n}`);

export const HOT: Record<string, HotStatement> = {
  "picker/claim_runnable": {
    sender: "picker",
    params: (batch) => [
      ...["default", String(batch), "node/2", "60000", "{plain}", "{1}"],
      ...["{}", "{}", "{}", null, "16000000", "{}", "0"],
    ],
  },
  "picker/find_head": { sender: "picker", params: () => ["default", "{plain}", "{1}", "{}"] },
  "picker/lock_candidates": {
    sender: "picker",
    windowRows: 1_000,
    params: (batch) => [
      ...["limited", String(batch), String(Math.max(batch, 100)), "{plain}", "{1}", "{0}"],
      ...["{-infinity}", "{0}", null, "16000000", "{}", "{}", list(gates(Math.min(batch, 10))), "{}"],
    ],
  },
  "picker/claim_plenty": {
    sender: "picker",
    windowRows: 1_000,
    params: (batch) => [
      ...["limited", String(batch), "node/2", "60000", "{plain}", "{1}", "{0}", "{-infinity}", "{0}"],
      ...[null, "16000000", "{}"],
    ],
  },
  "picker/claim_admitted": {
    sender: "picker",
    params: (batch, rows) => [ids("runnable")(batch, rows), all("NULL", batch), "node/2", "60000"],
  },
  "picker/load_inboxes": {
    sender: "picker",
    params: (batch, rows) => [executing(batch, rows), "100", "1000000"],
  },
  "picker/load_children": {
    sender: "picker",
    params: (batch, rows) => [ids("parents")(batch, rows), "1000000", "10000"],
  },
  "picker/mark_started": { sender: "picker", params: owned },
  "picker/lock_chained": {
    sender: "picker",
    params: (batch, rows) => [...owned(batch, rows), all(2, batch)],
  },
  "picker/stamp_shards": {
    sender: "picker",
    params: (batch, rows) => [...owned(batch, rows), all(0, batch)],
  },
  "picker/read_claimed": { sender: "keeper", params: owned },
  "limiter/lock_buckets": {
    sender: "picker",
    params: (batch) => [all("conc", batch), list(gates(batch)), "0", all(0, batch)],
  },
  "limiter/write_buckets": {
    sender: "picker",
    params: (batch) => [
      ...[
        all("conc", batch),
        list(gates(batch)),
        all(0, batch),
        all(25, batch),
        all(24, batch),
        all(0, batch),
      ],
      all("f", batch),
    ],
  },
  "limiter/debit_slots": {
    sender: "picker",
    params: (batch) => [list(gates(batch)), all(0, batch), all(1, batch), all(25, batch)],
  },
  "limiter/lock_gates": { sender: "keeper", params: (batch) => ["", String(batch)] },
  "limiter/sweep_rates": { sender: "keeper", params: (batch) => ["", String(batch)] },
  "flusher/lock_batch": { sender: "flusher", params: (batch, rows) => [executing(batch, rows)] },
  "flusher/find_unlocked": { sender: "flusher", params: (batch, rows) => [executing(batch, rows)] },
  "flusher/apply_done": {
    sender: "flusher",
    params: (batch, rows) => [executing(batch, rows), list([CLAIM]), byId("1", batch, rows), null],
  },
  "flusher/apply_next": {
    sender: "flusher",
    params: (batch, rows) => [executing(batch, rows), list([CLAIM]), byId('["start"]', batch, rows), null],
  },
  "flusher/apply_inline": {
    sender: "flusher",
    params: (batch, rows) => [
      ...[executing(batch, rows), list([CLAIM]), byId('["start",{"n":1}]', batch, rows), "60000", null],
    ],
  },
  "flusher/apply_outcomes": { sender: "flusher", params: (batch, rows) => outcomes("done", batch, rows) },
  "flusher/apply_outcomes (next)": {
    sender: "flusher",
    params: (batch, rows) => outcomes("next", batch, rows),
  },
  "flusher/apply_outcomes (inline)": {
    sender: "flusher",
    params: (batch, rows) => outcomes("inline", batch, rows),
  },
  "flusher/apply_outcomes (await)": {
    sender: "flusher",
    params: (batch, rows) => outcomes("await", batch, rows),
  },
  "flusher/insert_children": {
    sender: "flusher",
    params: (batch, rows) => [
      executing(batch, rows),
      ...[all(3, batch), all("plain", batch), all(1, batch), all("start", batch), all('"{}"', batch)],
      ...[all("children", batch), "{}", "{}", "{}", "{}", "{}", "{}"],
      ...[list(Array.from({ length: batch }, (_, n) => `child:${n}`)), all('"{runnable}"', batch), null],
    ],
  },
  "flusher/join_parents": {
    sender: "flusher",
    params: (batch, rows) => [ids("parents")(batch, rows), all(2, batch), all(1, batch), null, "f"],
  },
  "flusher/consume_signals": {
    sender: "flusher",
    params: (batch, rows) => ["{}", "{}", executing(batch, rows), null],
  },
  "flusher/release_identities": {
    sender: "flusher",
    params: (batch, rows) => [executing(batch, rows), all("runnable", batch), "{}", "{}", "f", null],
  },
  "flusher/credit_slots": {
    sender: "flusher",
    params: (batch) => [list(gates(batch)), all(0, batch), all(1, batch)],
  },
  "flusher/find_guarded": {
    sender: "flusher",
    params: (batch, rows) => [executing(batch, rows), all("nobody/1", batch), all(2, batch)],
  },
  "flusher/lock_lost": { sender: "flusher", params: owned },
  "flusher/return_lost": {
    sender: "flusher",
    params: (batch, rows) => [...owned(batch, rows), all("t", batch), null],
  },
  "lease/extend_leases": { sender: "keeper", params: (batch, rows) => [...owned(batch, rows), "60000"] },
  "lease/find_owned": { sender: "keeper", params: owned },
  "timers/find_due": { sender: "keeper", params: () => ["{default,limited,children}", null] },
  "timers/fire_timeouts": { sender: "keeper", params: (batch) => [String(batch), null, "f"] },
  "reaper/lock_expired": { sender: "keeper", params: (batch) => [null, String(batch), null] },
  "reaper/return_expired": { sender: "keeper", params: (batch, rows) => [executing(batch, rows), "f"] },
  "reaper/find_orphaned_parents": { sender: "keeper", params: (batch) => ["0", String(batch)] },
  "reaper/lock_parents": { sender: "keeper", params: (batch, rows) => [ids("parents")(batch, rows)] },
  "reaper/wake_orphaned_parents": {
    sender: "keeper",
    params: (batch, rows) => [ids("parents")(batch, rows)],
  },
  "reaper/watch_nodes": { sender: "keeper", params: () => ["n1"] },
  "reaper/find_own": { sender: "keeper", params: () => ["n1"] },
  "collector/find_collectable": { sender: "keeper", params: (batch) => ["1000", String(batch), null] },
  "collector/delete_instances": { sender: "keeper", params: (batch, rows) => [ids("ended")(batch, rows)] },
  "node/beat_node": { sender: "keeper", params: () => ["n1"] },
  "client/insert_unkeyed": { sender: "client", params: (batch) => inserted(batch, false) },
  "client/insert_keyed": { sender: "client", params: (batch) => inserted(batch, true) },
  "client/find_occupants": {
    sender: "client",
    params: (batch, rows) => [list(idsOf(rows, "parked", batch).map((id) => `parked:${id}`))],
  },
  "client/find_ended": {
    sender: "client",
    params: (_batch, rows) => [String(idsOf(rows, "ended", 1)[0]), "none"],
  },
  "client/deliver_signals": {
    sender: "client",
    params: (batch, rows) => [
      ...[
        ids("parked")(batch, rows),
        all("NULL", batch),
        all("go", batch),
        json("{}", batch),
        all("NULL", batch),
      ],
      ...[null, "{}"],
    ],
  },
  "client/deliver_signals (by key)": {
    sender: "client",
    params: (batch, rows) => [
      ...[all("NULL", batch), list(idsOf(rows, "parked", batch).map((id) => `parked:${id}`))],
      ...[all("go", batch), json("{}", batch), all("NULL", batch), null, "{}"],
    ],
  },
  "client/watch_instances": {
    sender: "client",
    // It reads what has ended since the last look, however much the table holds: here one row a second has.
    params: (batch, rows) => [
      executing(batch, rows),
      String(Math.floor(Date.now() / 1_000) - 2 * batch),
      String(batch),
    ],
  },
  "client/read_instance": {
    sender: "client",
    params: (_batch, rows) => [String(idsOf(rows, "executing", 1)[0])],
  },
};

/** Files that are not measured, and why. */
export const COLD: Record<string, string> = {
  ...because("a command's, or a person's who looks", [
    ...[
      "cli/count_instances",
      "cli/list_grants",
      "cli/list_limits",
      "cli/list_nodes",
      "cli/list_stalled",
      "cli/list_versions",
    ],
    ...[
      "client/find_fsm",
      "client/find_stretch",
      "client/list_children",
      "client/list_executing",
      "client/list_fsms",
    ],
    ...["client/list_instances", "client/list_occupant"],
  ]),
  ...because("the embedded server's, on its own connection", [
    ...["cli/count_server_users", "cli/join_server", "cli/leave_server", "cli/take_server"],
  ]),
  ...because("one instance and its family, by hand", [
    ...["client/cancel_instances", "client/lock_family", "client/join_parents", "client/read_failed"],
    "client/retry_instance",
  ]),
  ...because("reads no table", [
    ...["client/poke_queues", "flusher/poke_queues", "flusher/read_server", "flusher/read_transaction"],
    ...[
      "flusher/state_session",
      "node/pin_plans",
      "node/state_session",
      "picker/state_session",
      "node/find_defaults",
    ],
    ...["node/read_process", "node/read_recovery", "node/read_server"],
  ]),
  ...because("once at a node's start or end, or a migration's", [
    ...[
      "migrations/0001_schema",
      "node/create_migrations",
      "node/create_schema",
      "node/delete_node",
      "node/enter_known",
      "node/find_captured",
    ],
    ...["node/find_schema", "node/lock_migrations", "node/read_migrations", "node/record_migration"],
    ...["node/register_node", "node/upsert_fsms", "node/upsert_limits", "picker/find_progress"],
  ]),
  ...because(
    "reads the executing set, and says so: after a lost answer or a dead node, or once a sweep of gates",
    [...["picker/release_claims", "reaper/delete_nodes", "limiter/heal_gates"]],
  ),
  ...because("the testing helpers'", ["testing/list_work", "testing/read_instance"]),
};

function because(reason: string, files: readonly string[]): Record<string, string> {
  return Object.fromEntries(files.map((file) => [file, reason]));
}

/** The file of an entry of HOT. */
export function fileOf(name: string): string {
  return name.replace(/ \(.*\)$/, "");
}
