-- Runs:    every connection behind a transaction pooler, once, when it opens.
-- Does:    finds what the role or the database sets otherwise than the engine relies on. A pooler's session is everybody's, so
--          nothing is set here: each transaction states these for itself (connection.ts).
-- Params:  none.
-- Returns: in_recovery, process (the server's own number for the session: a pooler tells its clients another one), and
--          stated: a `SET LOCAL` text, '' where the defaults are the engine's.
-- Locks:   nothing.
SELECT pg_is_in_recovery() AS in_recovery, pg_backend_pid() AS process,
       coalesce((SELECT string_agg(format('SET LOCAL %s = %L', name, value), '; ')
                   FROM (VALUES
                     ('default_transaction_isolation', 'read committed'),
                     ('default_transaction_read_only', 'off'),
                     ('default_transaction_deferrable', 'off'),
                     ('statement_timeout', '0'),
                     ('lock_timeout', '0'),
                     ('transaction_timeout', '0'),
                     ('standard_conforming_strings', 'on'),
                     ('array_nulls', 'on'),
                     ('extra_float_digits', '1'),
                     ('enable_nestloop', 'on'),
                     ('enable_indexscan', 'on'),
                     ('search_path', 'pg_catalog'),
                     ('DateStyle', 'ISO')
                   ) AS setting (name, value)
                  WHERE CASE name WHEN 'search_path' THEN current_setting(name) ~ 'pg_catalog'
                                  WHEN 'DateStyle' THEN current_setting(name) NOT LIKE 'ISO%'
                                  ELSE current_setting(name, true) <> value END), '') AS stated
