-- Runs:    flusher, after lock_lost, over the rows that are still ours.       Index: gen_durable_pkey.
-- Does:    returns them to runnable at their old place. A row that had begun gets an attempt and a crash; one that had not
--          goes back untouched. The crash is charged now, so started_at must not charge it again.
-- Params:  $1 ids bigint[], $2 claims text[], $3 whether user code had begun boolean[]. $4 timestamptz: as of when, NULL: now.
-- Returns: nothing.
-- Locks:   rows that lock_lost has locked. It may wait in gen_durable_correlation, under the lock timeout.
UPDATE :schema.gen_durable AS g SET
  status = 'runnable',
  attempt = least(g.attempt, 2147483646) + CASE WHEN b.begun THEN 1 ELSE 0 END,
  crashes = least(g.crashes, 2147483646) + CASE WHEN b.begun THEN 1 ELSE 0 END,
  started_at = NULL,
  locked_by = NULL,
  lease_expires_at = NULL,
  concurrency_shard = NULL,
  updated_at = coalesce($4::timestamptz, now())
FROM unnest($1::bigint[], $2::text[], $3::boolean[]) AS b (id, claim, begun)
WHERE g.id = ANY (ARRAY[b.id]) AND g.locked_by = b.claim AND g.status::text = 'executing'
