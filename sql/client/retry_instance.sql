-- Runs:    a client that retries an instance, after read_failed found it failed and its key free.
-- Does:    makes it runnable at the step that failed, as a new visit with attempt 0 and the same inputs. Its parent waits for it
--          again where its round still waits; otherwise it is detached from the parent.
-- Params:  all text: $1 id, $2 'yes': its parent's round still waits.
-- Returns: queue.
-- Locks:   rows that lock_family has locked. It may wait in gen_durable_correlation, under the lock timeout.
WITH rearmed AS (
  UPDATE :schema.gen_durable AS p SET children_pending = p.children_pending + 1, updated_at = now()
  FROM :schema.gen_durable AS child
  WHERE CAST($2 AS text) = 'yes' AND child.id = CAST(CAST($1 AS text) AS bigint) AND p.id = child.parent_id
)
UPDATE :schema.gen_durable AS g SET
  status = 'runnable', attempt = 0, visit = least(g.visit, 2147483646) + 1, crashes = 0, reaps = 0, started_at = NULL,
  result = NULL, last_error = NULL, eligible_at = now(), locked_by = NULL, lease_expires_at = NULL,
  concurrency_shard = NULL, await_deadline = NULL, children_pending = 0, cancel_requested = false, cancel_reason = NULL,
  parent_id = CASE WHEN CAST($2 AS text) = 'yes' THEN g.parent_id END,
  parent_visit = CASE WHEN CAST($2 AS text) = 'yes' THEN g.parent_visit END,
  updated_at = now()
WHERE g.id = CAST(CAST($1 AS text) AS bigint) AND CAST(g.status AS text) = 'failed'
RETURNING g.queue
