-- Runs:    a client whose FSM name or version nobody has catalogued, for the message.
-- Does:    reads the catalogued names.
-- Params:  none.
-- Returns: name and its versions, comma separated; at most 200.
-- Locks:   nothing.
SELECT name, string_agg(CAST(version AS text), ', ' ORDER BY version) AS versions
FROM :schema.fsms
GROUP BY name
ORDER BY name
LIMIT 200
