-- Runs:    coordinator (lease heartbeat), for the rows that extend_leases did not return.      Index: gen_durable_pkey.
-- Does:    tells rows that are only locked by somebody from rows that are lost.
-- Params:  $1 ids bigint[], $2 claims text[] (same length).
-- Returns: id, claim and cancel_requested of the rows that are still under their claim.
-- Locks:   nothing.
SELECT g.id, h.claim, g.cancel_requested
  FROM unnest($1::bigint[], $2::text[]) AS h (id, claim)
  CROSS JOIN LATERAL (
    SELECT g.id, g.cancel_requested FROM :schema.gen_durable g
     WHERE g.id = h.id AND g.locked_by = h.claim AND g.status::text = 'executing'
     OFFSET 0
  ) g
