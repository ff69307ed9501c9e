-- Runs:    every connection of the engine, once, when it opens (not behind a transaction pooler).
-- Does:    states what the engine relies on, whatever the role's defaults are. A server whose client has vanished without
--          a word gives its locks back within 15 s. What this version of Postgres does not know is left out.
-- Params:  none.
-- Returns: in_recovery (a standby takes no writes), process (the server's own number for the session).
-- Locks:   nothing.
SELECT set_config(name, value, false), pg_is_in_recovery() AS in_recovery, pg_backend_pid() AS process
FROM (VALUES
  ('search_path', 'pg_catalog'),
  ('default_transaction_isolation', 'read committed'),
  ('default_transaction_read_only', 'off'),
  ('default_transaction_deferrable', 'off'),
  ('jit', 'off'),
  ('statement_timeout', '0'),
  ('lock_timeout', '0'),
  ('transaction_timeout', '0'),
  ('idle_in_transaction_session_timeout', '60s'),
  ('idle_session_timeout', '0'),
  ('client_min_messages', 'warning'),
  ('plan_cache_mode', 'auto'),
  ('enable_nestloop', 'on'),
  ('enable_indexscan', 'on'),
  ('standard_conforming_strings', 'on'),
  ('array_nulls', 'on'),
  ('extra_float_digits', '1'),
  ('DateStyle', 'ISO'),
  ('IntervalStyle', 'postgres'),
  ('TimeZone', 'UTC'),
  ('tcp_keepalives_idle', '5'),
  ('tcp_keepalives_interval', '3'),
  ('tcp_keepalives_count', '3'),
  ('tcp_user_timeout', '15000')
) AS setting (name, value)
WHERE current_setting(name, true) IS NOT NULL
