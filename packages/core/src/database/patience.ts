// Patience: for how long a connection may be silent before it counts as gone. A firewall that drops packets says nothing.

/** A server that lives answers within this, however busy it is: giving up costs a new connection, and a question after a commit. */
const PATIENCE_MS_MAX = 15_000;
const PATIENCE_MS_MIN = 2_000;
/** Half of the lease is left for opening another connection and for what was to be done over this one. */
const PATIENCE_PART = 0.5;

/**
 * How long a statement that a lease depends on (a pick, a heartbeat of leases, a flush) is waited for, milliseconds: half of the
 * lease, so that what the silent connection held up is done over another one before the lease runs out; at least 2 s, at most 15 s.
 */
export function patienceMs(leaseTtlMs: number): number {
  return Math.min(Math.max(leaseTtlMs * PATIENCE_PART, PATIENCE_MS_MIN), PATIENCE_MS_MAX);
}
