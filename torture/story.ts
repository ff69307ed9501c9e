// Story: everything that is known of one instance, in the order in which it happened.

import type { CheckScene } from "./check/invariant.js";

const EVENTS = `
  SELECT at, text FROM (
    SELECT at, 'row      ' || op || ' ' || coalesce(was_status || ' -> ', '') || coalesce(status, '') || ', step ' || coalesce(step, '-')
             || ', visit ' || coalesce(visit::text, '-') || ', attempt ' || coalesce(attempt::text, '-') || ', crashes '
             || coalesce(crashes::text, '-') || coalesce(', claim ' || claim, '') || coalesce(', was ' || was_claim, '')
             || coalesce(', key ' || key, '') || coalesce(', shard ' || shard, '') || coalesce(', by ' || by, '')
             || coalesce(', ' || pending || ' children', '') || coalesce(', reaped after a silence of ' || round(silent_ms) || ' ms', '')
             || coalesce(', error ' || last_error, '') AS text
      FROM torture.history WHERE id = $1
    UNION ALL
    SELECT begun_at, 'run      ' || run || ' ' || kind || ' ' || step || ' begins, visit ' || visit || ', attempt ' || attempt
             || ', sees ' || coalesce(seen_status, 'nothing') || ' visit ' || coalesce(seen_visit::text, '-') || ' claim '
             || coalesce(seen_claim, '-') || ', awaited ' || awaited::text
      FROM torture.runs WHERE id = $1
    UNION ALL
    SELECT ended_at, 'run      ' || run || ' ends' FROM torture.runs WHERE id = $1 AND ended_at IS NOT NULL
    UNION ALL
    SELECT at, 'signal   ' || op || ' ' || signal || ' ' || name || coalesce(' sig ' || sig, '') FROM torture.inbox WHERE target = $1
    UNION ALL
    SELECT t.from_at, 'trouble  ' || t.kind || coalesce(' of process ' || t.pid, '') || ' until ' || to_char(t.to_at AT TIME ZONE 'UTC', 'HH24:MI:SS.MS')
      FROM torture.troubles t
     WHERE t.from_at < (SELECT max(at) FROM torture.history WHERE id = $1) AND t.to_at > (SELECT min(at) FROM torture.history WHERE id = $1)
       AND (t.pid IS NULL OR t.pid IN (SELECT pid FROM torture.runs WHERE id = $1))
    UNION ALL
    SELECT e.at, 'process  ' || e.pid || ' ends' FROM torture.ends e
     WHERE e.pid IN (SELECT pid FROM torture.runs WHERE id = $1)
       AND e.at BETWEEN (SELECT min(at) FROM torture.history WHERE id = $1) AND (SELECT max(at) FROM torture.history WHERE id = $1)
    UNION ALL
    SELECT at, 'answer   ' || kind || coalesce(' sig ' || sig, '') || coalesce(' ' || value::text, '') FROM torture.acks WHERE id = $1
  ) AS events ORDER BY at`;

export async function storyOf(scene: CheckScene, id: number): Promise<string[]> {
  const rows = await scene.query<{ at: Date; text: string }>(EVENTS, [id]);
  return rows.map(({ at, text }) => `${at.toISOString().slice(11)}  ${text}`);
}
