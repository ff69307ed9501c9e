-- Runs:    coordinator, after a claim whose answer was lost with its connection, and last in a drain; credit_slots follows in
--          the same transaction.
-- Does:    gives back the rows of claims that nobody in this node holds: executing -> runnable, as if never claimed.
-- Params:  $1 claims text[]; $2 a node's prefix (`<node>/`) text or NULL: every claim of that node.
-- Returns: the queue of each row that went back, and gate and shard of the slot that it held.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED. Index: gen_durable_lease (the executing rows).
WITH lost AS MATERIALIZED (
  SELECT g.id, CASE WHEN g.concurrency_shard >= 0 THEN g.concurrency_key END AS gate, g.concurrency_shard AS shard
    FROM :schema.gen_durable g
   WHERE g.status = 'executing'
     AND (g.locked_by = ANY ($1::text[]) OR starts_with(g.locked_by, $2::text))
     FOR NO KEY UPDATE SKIP LOCKED
), released AS (
  UPDATE :schema.gen_durable g
     SET status = 'runnable', locked_by = NULL, lease_expires_at = NULL, started_at = NULL, concurrency_shard = NULL,
         updated_at = now()
   WHERE g.id = ANY (ARRAY(SELECT lost.id FROM lost))
  RETURNING g.id, g.queue
)
SELECT released.queue, lost.gate, lost.shard FROM released JOIN lost ON lost.id = released.id
