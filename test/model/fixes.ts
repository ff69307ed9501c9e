// Fixes: what keeps the engine from the races of its history, each of which can be taken out of the model.

export const FIXES = {
  recheckAtPark: "a park looks once more for a signal that it was not shown (apply_outcomes: found)",
  lockBeforeUpdate: "the flush locks its rows in one statement and updates them in a later one (lock_batch)",
  deliveryJudgesLocked: "a delivery locks its target and judges the version it has locked (deliver_signals)",
  fenceByPick: "locked_by names the pick, not only the node (claim_runnable: <node>/<pick>)",
  guard: "an outcome commits only under its claim (apply_outcomes: WHERE)",
  claimRechecks: "a claim takes only what is still runnable under its lock (claim_runnable)",
  reapUnderLock: "the reaper locks lost rows before it decides about them (lock_expired)",
  spawnWithPark: "children are inserted in the transaction that parks their parent (insert_children)",
  rounds: "a join counts only children of the round that the parent waits in (join_parents: visit)",
  lockParents: "a child's end locks its parent with the batch (lock_batch)",
  joinWithEnd: "a child's end and its count off the parent are one transaction (join_parents)",
  orphansLookAgain: "the reaper counts children again under the parent's lock (wake_orphaned_parents)",
  retryRearms: "the retry of a failed child is counted onto its parent again (retry_instance)",
  creditUnderGuard: "a slot is credited only for a row whose guard held (freedSlots)",
  creditWithCommit: "a slot is credited in the transaction that frees it (credit_slots)",
  admitUnderLock: "a pick debits counters that it has locked (lock_buckets)",
  countAfterLock:
    "counters are locked first, and rows are counted in a later statement (lock_gates, heal_gates)",
  uniqueActiveKey:
    "a unique index allows one executing row of an exclusive key (gen_durable_concurrency_active)",
  dedup: "a second signal with the same dedup key is not stored (signals_dedup)",
  consumedStay: "a consumed signal with a dedup key stays until its instance goes (consume_signals)",
  cancelUnderLock: "a cancel decides by what it finds under the lock (cancel_instances)",
  flushSeesCancel: "the flush finds a cancel request under its lock (lock_batch: cancelled)",
  familyInOrder: "a cancel and a retry lock their families by id (lock_family: ORDER BY)",
} as const;

export type Fix = keyof typeof FIXES;
export type Fixes = Readonly<Record<Fix, boolean>>;

export const ALL_FIXES: Fixes = Object.fromEntries(Object.keys(FIXES).map((fix) => [fix, true])) as Fixes;

export function without(fix: Fix): Fixes {
  return { ...ALL_FIXES, [fix]: false };
}
