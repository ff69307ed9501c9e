import { count, type Finding, findings, type Invariant } from "./invariant.js";

/** An occupant is seen until the commit of what ends it, and that may be slow. */
const COMMIT_SLACK_MS = 5_000;

interface Entry {
  n: number;
  id: number;
  op: string;
  guard: string | null;
  atMs: number;
}

/** Correlation keys: whoever takes one finds it free; who is told that it is taken is told by whom. */
export const identities: Invariant = {
  number: 9,
  title: "Identity: one correlation key is occupied by at most one instance",
  check: async (scene) => {
    const entries = await scene.query<Entry & Record<string, unknown>>(
      `SELECT n::float8 AS n, id::float8 AS id, op, guard, (extract(epoch FROM at) * 1000)::float8 AS "atMs" FROM torture.history
        WHERE id IN (SELECT id FROM torture.history WHERE guard IS NOT NULL) ORDER BY n`,
    );
    const occupants = new Map<string, number>();
    const held = new Map<number, { key: string; fromMs: number }>();
    const stays: { key: string; id: number; fromMs: number; toMs: number }[] = [];
    const broken: Finding[] = [];
    let cases = 0;
    for (const { n, id, op, guard, atMs } of entries) {
      const own = held.get(id);
      const key = op === "DELETE" ? null : guard;
      if (own !== undefined && own.key !== key) {
        held.delete(id);
        if (occupants.get(own.key) === id) occupants.delete(own.key);
        stays.push({ key: own.key, id, fromMs: own.fromMs, toMs: atMs });
      }
      if (key === null || own?.key === key) continue;
      cases++;
      const other = occupants.get(key);
      if (other !== undefined && other !== id)
        broken.push({ id, text: `took the key "${key}", which ${other} occupied (change ${n})` });
      occupants.set(key, id);
      held.set(id, { key, fromMs: atMs });
    }
    for (const [id, { key, fromMs }] of held) stays.push({ key, id, fromMs, toMs: Number.POSITIVE_INFINITY });
    const told = await scene.query<{ id: number; key: string; fromMs: number; atMs: number }>(
      `SELECT id::float8 AS id, key, (extract(epoch FROM from_at) * 1000)::float8 AS "fromMs", (extract(epoch FROM at) * 1000)::float8 AS "atMs"
         FROM torture.acks WHERE kind = 'duplicate'`,
    );
    for (const { id, key, fromMs, atMs } of told) {
      cases++;
      const isTrue = stays.some(
        (stay) =>
          stay.key === key && stay.id === id && stay.fromMs <= atMs && stay.toMs >= fromMs - COMMIT_SLACK_MS,
      );
      if (!isTrue) broken.push({ id, text: `was told to occupy "${key}", and did not` });
    }
    broken.push(...(await findings(scene, TWO_AT_ONCE)), ...(await findings(scene, SIGNALS_TWICE)));
    cases += await count(scene, "SELECT count(*) AS n FROM torture.inbox WHERE dedup_key IS NOT NULL");
    return { cases, broken };
  },
};

/** By what callers were told alone: two instances of one key, in whose scope is all of a life, do not live at once. */
const TWO_AT_ONCE = `
  WITH told AS (
    SELECT DISTINCT a.id, a.key FROM torture.acks a WHERE a.kind = 'inserted' AND a.key LIKE 'shared:%'
  ), lives AS (
    SELECT t.id, t.key, min(h.n) FILTER (WHERE h.op = 'INSERT') AS first,
           min(h.n) FILTER (WHERE h.status IN ('done', 'failed')) AS last
      FROM told t JOIN torture.history h ON h.id = t.id GROUP BY t.id, t.key
  )
  SELECT b.id, 'was created under "' || b.key || '" while ' || a.id || ' lived under it' AS text
    FROM lives a JOIN lives b ON b.key = a.key AND b.id <> a.id AND b.first > a.first AND (a.last IS NULL OR b.first < a.last)`;

/** The identity of a message: one key is stored once an instance. */
const SIGNALS_TWICE = `
  SELECT target AS id, 'the signal "' || dedup_key || '" was stored ' || count(*) || ' times' AS text
    FROM torture.inbox WHERE op = 'stored' AND dedup_key IS NOT NULL GROUP BY target, dedup_key HAVING count(*) > 1`;
