// Engines: what is compared, how its store is asked for what is left and tells of ends, and what its durability means.

export interface PeerEngine {
  name: string;
  /** In engines/. */
  file: string;
  store: "postgres" | "redis always" | "redis everysec";
  /** What has happened when it says that a job is done. */
  durability: string;
  /** Handed to its file. */
  options: { inline?: boolean };
  /** Of the others' numbers of jobs and chains: an engine whose rate is small and does not depend on them is not waited for. */
  share: number;
  /** Whether its handlers run in its own thread, which counts them. */
  counts: boolean;
  runs: { drain: boolean; chain: boolean; fanOut: boolean; latency: boolean };
  /** The number of jobs that have not ended, or any number but 0. */
  leftSql: string;
  /** Notifies `bench_done` with a job's number when its end commits. */
  triggerSql: string;
}

const ALL = { drain: true, chain: true, fanOut: true, latency: true };

const OURS = {
  file: "genDurable.mjs",
  store: "postgres",
  share: 1,
  counts: false,
  leftSql: `SELECT count(*) FROM (
    (SELECT 1 FROM gen_durable.gen_durable WHERE status = 'runnable' LIMIT 1) UNION ALL
    (SELECT 1 FROM gen_durable.gen_durable WHERE status = 'executing' LIMIT 1) UNION ALL
    (SELECT 1 FROM gen_durable.gen_durable WHERE status = 'awaiting_children' LIMIT 1)) AS live`,
  triggerSql: triggerOf(
    "UPDATE ON gen_durable.gen_durable",
    "NEW.status = 'done' AND OLD.status <> 'done'",
    "NEW.state->>'n'",
  ),
} as const;

export const ENGINES: readonly PeerEngine[] = [
  {
    ...OURS,
    name: "gen-durable",
    options: {},
    runs: ALL,
    durability:
      "each step's state and result are committed (fsync) before the next step begins; a row is kept for every instance",
  },
  {
    ...OURS,
    name: "gen-durable, inline",
    options: { inline: true },
    runs: { drain: false, chain: true, fanOut: false, latency: false },
    durability: "the same: a step that runs ahead begins when the commit of the one before is acknowledged",
  },
  {
    name: "graphile-worker",
    file: "graphileWorker.mjs",
    store: "postgres",
    options: {},
    share: 1,
    counts: true,
    runs: { ...ALL, fanOut: false },
    durability:
      "a finished job is deleted (fsync), no state or result is kept; the next job of a chain commits by itself, before the job that enqueued it is deleted",
    leftSql: "SELECT count(*) FROM graphile_worker._private_jobs",
    triggerSql: triggerOf("DELETE ON graphile_worker._private_jobs", "true", "OLD.payload->>'n'"),
  },
  {
    name: "pg-boss",
    file: "pgBoss.mjs",
    store: "postgres",
    options: {},
    share: 1,
    counts: true,
    runs: ALL,
    durability:
      "a handler gets a batch, and the batch is completed with one commit (fsync): a crash runs up to 2,000 jobs again; the next jobs of a chain commit apart from that",
    leftSql:
      "SELECT count(*) FROM pgboss.job WHERE name IN ('one', 'chain', 'child', 'join') AND state <> 'completed'",
    triggerSql: triggerOf(
      "UPDATE ON pgboss.job",
      "NEW.name = 'one' AND NEW.state = 'completed' AND OLD.state <> 'completed'",
      "NEW.data->>'n'",
    ),
  },
  {
    name: "DBOS",
    file: "dbos.mjs",
    store: "postgres",
    options: {},
    share: 0.1,
    counts: true,
    runs: ALL,
    durability:
      "each step's output is committed (fsync) before the function goes on, and replayed after a crash; a row is kept for every workflow and step",
    leftSql: "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'",
    triggerSql: triggerOf(
      "UPDATE ON dbos.workflow_status",
      "NEW.status = 'SUCCESS' AND OLD.status <> 'SUCCESS' AND NEW.workflow_uuid LIKE 'one-%'",
      "substr(NEW.workflow_uuid, 5)",
    ),
  },
  ...(["always", "everysec"] as const).map(
    (mode): PeerEngine => ({
      name: `BullMQ, AOF ${mode}`,
      file: "bullmq.mjs",
      store: `redis ${mode}`,
      options: {},
      share: 1,
      counts: true,
      runs: ALL,
      durability:
        mode === "always"
          ? "Redis writes and syncs its log before it answers; one Redis, no transaction with a database of yours"
          : "Redis syncs its log once a second: a power cut loses up to a second or two of answered work",
      leftSql: "",
      triggerSql: "",
    }),
  ),
];

function triggerOf(event: string, when: string, number: string): string {
  return `
    CREATE FUNCTION bench_done() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_notify('bench_done', ${number}); RETURN NULL; END $$;
    CREATE TRIGGER bench_done AFTER ${event} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION bench_done();`;
}
