// Pause points: named places at which a test can hold one side of a race, so that the other does what it does exactly there.
// PP1  In production nothing is armed and nothing can be: no option, no environment variable and no message reaches this.
//      The gate is a property of `globalThis` under a symbol, which only code in the same thread can set; the tests'
//      does (test/support/pauses.ts), and a preload of theirs for real nodes (test/support/pauseGate.cjs).
// PP2  A point stands where a transaction or a batch passes, never where a row does: unarmed it costs one look at a property.

/** Where a side can be held. Each name says what is true there. */
export type PausePoint =
  // flusher, one transaction
  | "flush.locked" // its rows are locked, nothing is written
  | "flush.applied" // everything is written, COMMIT is not sent
  | "flush.committed" // COMMIT has returned, nobody has been told
  | "return.locked" // rows that will not be run are locked, nothing is written
  | "return.committed" // they are back, nobody has been told
  // picker
  | "pick.claimed" // the claim is committed (without limits), what its steps need is not loaded
  | "pick.taken" // the claim and what it takes of its limits are committed at once, what its steps need is not loaded
  | "pick.locked" // under limits: the candidates are locked, no counter is
  | "chain.admitted" // next steps of chains: counters and shards are written, COMMIT is not sent
  | "pick.admitted" // under limits: counters and rows are written, COMMIT is not sent
  // coordinator
  | "lease.due" // the rows to extend are chosen, nothing is sent
  | "reap.locked" // lost rows are locked, nothing is written
  | "reap.returned" // they are written, COMMIT is not sent
  | "orphans.found" // waiting parents without children were found, none is locked
  | "timeouts.woken" // parks past their deadline are written, COMMIT is not sent
  | "collect.found" // ended instances were found, none is locked
  | "gates.locked" // the counters of gates are locked, nothing is counted
  // client
  | "insert.refused" // a correlation key was occupied, the occupant has not been looked up
  | "signalOrInsert.missed" // nobody was there to be signalled, nothing is inserted
  | "control.locked"; // a cancel or a retry has locked its family, and has decided nothing

export type PauseGate = (point: PausePoint) => Promise<void> | undefined;

const GATE = Symbol.for("gen-durable.test.pauseGate");

/** Waits where a test holds this point; otherwise nothing. */
export function pauseAt(point: PausePoint): Promise<void> | undefined {
  return (globalThis as { [GATE]?: PauseGate })[GATE]?.(point);
}
