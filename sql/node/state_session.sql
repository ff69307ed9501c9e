-- Runs:    every connection of the engine, once, when it opens (not behind a transaction pooler).
-- Does:    states what the engine relies on, whatever the role's defaults are. A server whose client has vanished without
--          a word gives its locks back within 15 s.
-- Params:  none.
-- Returns: nothing of use.
-- Locks:   nothing.
SELECT set_config(name, value, false)
FROM (VALUES
  ('default_transaction_isolation', 'read committed'),
  ('default_transaction_read_only', 'off'),
  ('jit', 'off'),
  ('statement_timeout', '0'),
  ('lock_timeout', '0'),
  ('idle_in_transaction_session_timeout', '60s'),
  ('client_min_messages', 'warning'),
  ('plan_cache_mode', 'auto'),
  ('tcp_keepalives_idle', '5'),
  ('tcp_keepalives_interval', '3'),
  ('tcp_keepalives_count', '3'),
  ('tcp_user_timeout', '15000')
) AS setting (name, value)
