// Records: what the harness writes into the database beside the engine's tables: every version of every instance, every
// signal, every node and every limit, by triggers, in the transactions that make them; and the runs that the steps tell of.
// Nothing in it is known to the engine.

import type pg from "pg";

const TABLES = `
  CREATE SCHEMA torture;

  -- One row a version. The "was" columns are the version before.
  CREATE TABLE torture.history (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tx_at timestamptz NOT NULL DEFAULT now(), xid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    op text NOT NULL, id bigint NOT NULL, fsm text, w int,
    was_status text, status text, was_step text, step text, was_visit int, visit int, was_attempt int, attempt int,
    was_crashes int, crashes int, was_reaps int, reaps int, was_claim text, claim text, was_lease timestamptz,
    was_key text, key text, was_shard int, shard int, rate_limit text, weight float8,
    parent_id bigint, parent_visit int, pending int, guard text, cancels boolean, was_by text, by text,
    state jsonb, result jsonb, last_error text, silent_ms float8, was_marked_at timestamptz);
  CREATE INDEX history_id ON torture.history (id, n);
  CREATE INDEX history_parent ON torture.history (parent_id, parent_visit) WHERE parent_id IS NOT NULL;

  CREATE FUNCTION torture.by_of(status text, state jsonb, result jsonb, last_error text) RETURNS text
    LANGUAGE sql IMMUTABLE RETURN coalesce(
      CASE status WHEN 'done' THEN result->>'by' WHEN 'failed' THEN substring(last_error FROM 'by=([^ ]+)') END,
      state->>'by');

  CREATE FUNCTION torture.record_instance() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = gen_durable AS $$
  BEGIN
    IF TG_OP = 'DELETE' THEN
      INSERT INTO torture.history (op, id, fsm, was_status) VALUES (TG_OP, OLD.id, OLD.fsm, OLD.status);
    ELSIF TG_OP = 'INSERT' THEN
      INSERT INTO torture.history (op, id, fsm, w, status, step, visit, attempt, crashes, reaps, claim, key, shard, rate_limit,
                                   weight, parent_id, parent_visit, pending, guard, by, state)
      VALUES (TG_OP, NEW.id, NEW.fsm, (NEW.state->>'w')::int, NEW.status, NEW.step, NEW.visit, NEW.attempt, NEW.crashes,
              NEW.reaps, NEW.locked_by, NEW.concurrency_key, NEW.concurrency_shard, NEW.rate_limit, NEW.weight,
              NEW.parent_id, NEW.parent_visit, NEW.children_pending, NEW.correlation_guard, NEW.state->>'by', NEW.state);
    ELSE
      INSERT INTO torture.history (op, id, fsm, w, was_status, status, was_step, step, was_visit, visit, was_attempt, attempt,
                                   was_crashes, crashes, was_reaps, reaps, was_claim, claim, was_lease, was_key, key,
                                   was_shard, shard, rate_limit, weight, parent_id, parent_visit, pending, guard, cancels,
                                   was_by, by, state, result, last_error, was_marked_at, silent_ms)
      VALUES (TG_OP, NEW.id, NEW.fsm, (NEW.state->>'w')::int, OLD.status, NEW.status, OLD.step, NEW.step, OLD.visit, NEW.visit,
              OLD.attempt, NEW.attempt, OLD.crashes, NEW.crashes, OLD.reaps, NEW.reaps, OLD.locked_by, NEW.locked_by,
              OLD.lease_expires_at, OLD.concurrency_key, NEW.concurrency_key, OLD.concurrency_shard, NEW.concurrency_shard,
              NEW.rate_limit, NEW.weight, NEW.parent_id, NEW.parent_visit, NEW.children_pending, NEW.correlation_guard,
              OLD.cancel_requested OR NEW.cancel_requested,
              torture.by_of(OLD.status::text, OLD.state, OLD.result, OLD.last_error),
              torture.by_of(NEW.status::text, NEW.state, NEW.result, NEW.last_error),
              NEW.state, NEW.result, NEW.last_error, OLD.started_at,
              CASE WHEN NEW.reaps > OLD.reaps THEN
                (SELECT extract(epoch FROM clock_timestamp() - n.heartbeat_at) * 1000 FROM nodes n
                  WHERE n.id = split_part(OLD.locked_by, '/', 1)) END);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER record_creation AFTER INSERT OR DELETE ON gen_durable.gen_durable
    FOR EACH ROW EXECUTE FUNCTION torture.record_instance();
  -- A lease that is extended is no other version.
  CREATE TRIGGER record_change AFTER UPDATE ON gen_durable.gen_durable FOR EACH ROW
    WHEN ((OLD.status, OLD.step, OLD.visit, OLD.attempt, OLD.crashes, OLD.reaps, OLD.locked_by, OLD.concurrency_key,
           OLD.concurrency_shard, OLD.children_pending, OLD.cancel_requested, OLD.correlation_guard)
          IS DISTINCT FROM
          (NEW.status, NEW.step, NEW.visit, NEW.attempt, NEW.crashes, NEW.reaps, NEW.locked_by, NEW.concurrency_key,
           NEW.concurrency_shard, NEW.children_pending, NEW.cancel_requested, NEW.correlation_guard))
    EXECUTE FUNCTION torture.record_instance();

  CREATE TABLE torture.inbox (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), op text NOT NULL,
    signal bigint NOT NULL, target bigint NOT NULL, name text, sig int, dedup_key text);
  CREATE INDEX inbox_target ON torture.inbox (target);
  CREATE FUNCTION torture.record_signal() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO torture.inbox (op, signal, target, name, sig, dedup_key)
      VALUES ('stored', NEW.id, NEW.target_id, NEW.name, (NEW.payload->>'sig')::int, NEW.dedup_key);
    ELSIF TG_OP = 'DELETE' OR NEW.consumed_at IS NOT NULL THEN
      INSERT INTO torture.inbox (op, signal, target, name, dedup_key)
      VALUES ('consumed', OLD.id, OLD.target_id, OLD.name, OLD.dedup_key);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER record_signal AFTER INSERT OR UPDATE OR DELETE ON gen_durable.signals
    FOR EACH ROW EXECUTE FUNCTION torture.record_signal();

  CREATE TABLE torture.nodes (node text PRIMARY KEY, pid int NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
  CREATE FUNCTION torture.record_node() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    INSERT INTO torture.nodes (node, pid) VALUES (NEW.id, NEW.pid) ON CONFLICT DO NOTHING;
    RETURN NULL;
  END $$;
  CREATE TRIGGER record_node AFTER INSERT OR UPDATE OF id ON gen_durable.nodes
    FOR EACH ROW EXECUTE FUNCTION torture.record_node();

  CREATE TABLE torture.limits (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text NOT NULL, name text NOT NULL, rate float8, capacity float8);
  CREATE FUNCTION torture.record_limit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
  BEGIN
    INSERT INTO torture.limits (kind, name, rate, capacity) VALUES (NEW.kind, NEW.name, NEW.rate, NEW.capacity);
    RETURN NULL;
  END $$;
  CREATE TRIGGER record_limit AFTER INSERT OR UPDATE ON gen_durable.gen_durable_bucket_configs
    FOR EACH ROW EXECUTE FUNCTION torture.record_limit();

  -- What the steps themselves tell (machines/auditor.ts). "seen": their row, as it was committed when they began.
  CREATE TABLE torture.runs (
    n bigint GENERATED ALWAYS AS IDENTITY, run text PRIMARY KEY, id bigint NOT NULL, fsm text NOT NULL, step text NOT NULL,
    visit int NOT NULL, attempt int NOT NULL, kind text NOT NULL, awaited bigint[], inbox bigint[], woken_by text, children jsonb,
    pid int NOT NULL, thread int NOT NULL, clock_ms float8, begun_at timestamptz NOT NULL, ended_at timestamptz, took_ms float8,
    seen_status text, seen_visit int, seen_attempt int, seen_step text, seen_claim text, same_state boolean);
  CREATE INDEX runs_id ON torture.runs (id, visit);

  -- Written by the harness before it checks.
  CREATE TABLE torture.begun (pid int NOT NULL, id bigint NOT NULL, visit int NOT NULL, attempt int NOT NULL);
  CREATE TABLE torture.acks (kind text NOT NULL, w int NOT NULL, id bigint, sig int, key text, value jsonb,
    from_at timestamptz NOT NULL, at timestamptz NOT NULL);
  CREATE TABLE torture.ends (pid int NOT NULL, at timestamptz NOT NULL);
  CREATE TABLE torture.troubles (pid int, kind text NOT NULL, from_at timestamptz NOT NULL, to_at timestamptz NOT NULL);
`;

/** Creates tables and triggers in a migrated database. */
export async function createRecords(client: pg.ClientBase): Promise<void> {
  await client.query(TABLES);
}
