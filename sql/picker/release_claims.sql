-- Runs:    coordinator, after a claim whose answer was lost with its connection, and last in a drain.
-- Does:    gives back the rows of claims that nobody in this node holds: executing -> runnable, as if never claimed.
-- Params:  $1 claims text[]; $2 a node's prefix (`<node>/`) text or NULL: every claim of that node.
-- Returns: the queue of each row that went back.
-- Locks:   gen_durable, FOR NO KEY UPDATE SKIP LOCKED. Index: gen_durable_lease (the executing rows).
WITH lost AS (
  SELECT g.id FROM :schema.gen_durable g
   WHERE g.status = 'executing'
     AND (g.locked_by = ANY ($1::text[]) OR starts_with(g.locked_by, $2::text))
     FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE :schema.gen_durable g
   SET status = 'runnable', locked_by = NULL, lease_expires_at = NULL, started_at = NULL, updated_at = now()
 WHERE g.id = ANY (ARRAY(SELECT lost.id FROM lost))
RETURNING g.queue
