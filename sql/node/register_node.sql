-- Runs:    the main thread of a node, when it starts and when it finds that it was declared dead.
-- Does:    enters the node under its id, which no earlier boot has used.
-- Params:  $1 id, $2 instance, $3 hostname, $4 boot id, $5 pid, $6 version, $7 queues text[].
-- Returns: nothing.
-- Locks:   its own new row.
INSERT INTO :schema.nodes (id, instance, hostname, boot_id, pid, version, queues)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::int, $6::text, $7::text[])
