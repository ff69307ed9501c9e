-- Runs:    a client, first in a transaction that cancels or retries an instance.
-- Does:    locks an instance, its parent, and its descendants where they are to be cancelled as well.
-- Params:  all text: $1 id, $2 'yes': descendants too.
-- Returns: id and kind of each locked row: self, parent, descendant.
-- Locks:   gen_durable, FOR NO KEY UPDATE, id ascending. It waits, under the lock timeout; a flush skips what is locked here.
WITH RECURSIVE family (id, parent_id, kind) AS (
  SELECT g.id, g.parent_id, 'self'
  FROM :schema.gen_durable g
  WHERE g.id = CAST(CAST($1 AS text) AS bigint)
  UNION
  SELECT child.id, child.parent_id, 'descendant'
  FROM family
  JOIN :schema.gen_durable child ON child.parent_id = family.id
  WHERE CAST($2 AS text) = 'yes'
)
SELECT CAST(g.id AS text) AS id,
       coalesce((SELECT kind FROM family WHERE family.id = g.id LIMIT 1), 'parent') AS kind
FROM :schema.gen_durable g
WHERE g.id = ANY (ARRAY(SELECT id FROM family UNION SELECT parent_id FROM family WHERE kind = 'self'))
ORDER BY g.id
FOR NO KEY UPDATE OF g
