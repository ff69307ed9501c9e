// Run: one claim of one node, from the pick to the commit of what its step decided. It may be paused anywhere, by the
// interleaving, and it may die.

import { type Instance, instance, type Statement } from "./database.js";
import { commit, type Program } from "./explore.js";
import type { Fixes } from "./fixes.js";

export type Outcome =
  | { kind: "next"; step: string }
  | { kind: "retry" }
  | { kind: "await"; names: string[]; step: string }
  | { kind: "children"; step: string; count: number }
  | { kind: "done" }
  | { kind: "stop" };

export interface RunOptions {
  node: string;
  pick: string;
  fixes: Fixes;
  /** What each step decides. */
  outcomes: Readonly<Record<string, Outcome>>;
  /** Where a cancelled instance cleans up (fsms.on_cancel). */
  onCancel?: string | null;
  /** Limits can apply: the pick is a transaction of its own (claimLimited.ts). */
  limit?: "none" | "gate" | "exclusive";
  /** How many claims it makes, one after the other. */
  claims?: number;
  /** Only these instances. */
  only?: readonly string[];
}

const LIVE = ["runnable", "executing", "awaiting_signal", "awaiting_children"];

/** The program of a run. */
export function run(options: RunOptions): Program {
  const { fixes, limit = "none", claims = 1, only } = options;
  const claimOf = (s: Statement): string => `${options.node}/${options.pick}${s.memory.claims ?? 0}`;
  const ownerOf = (s: Statement): string => (fixes.fenceByPick ? claimOf(s) : options.node);
  const runnable = (s: Statement): string[] =>
    s
      .seen("instances")
      .filter(([id, row]) => row.status === "runnable" && (only === undefined || only.includes(id)))
      .map(([id]) => id);

  const take = (s: Statement, id: string, slot: boolean): void => {
    const row = s.newest("instances", id);
    if (row === undefined) return;
    if (row.status !== "runnable") s.violate("a claim took a row that was not runnable");
    s.change(id, { status: "executing", owner: ownerOf(s), claim: claimOf(s), slot });
    s.memory.id = id;
    s.memory.claim = claimOf(s);
    s.memory.owner = ownerOf(s);
    s.memory.visit = row.visit;
    s.memory.step = row.step;
    s.memory.parent = row.parent;
    s.memory.round = row.round;
    s.memory.attempt = row.attempt;
    s.memory.awaits = row.awaits;
    s.memory.seen = row.seen;
  };
  const again = (s: Statement): string => {
    const count = Number(s.memory.claims ?? 0) + 1;
    for (const key of Object.keys(s.memory)) delete s.memory[key];
    if (count >= claims) return "end";
    s.memory.claims = count;
    return "claim";
  };
  const outcomeOf = (s: Statement): Outcome => {
    const row = s.newest("instances", String(s.memory.id));
    if (row?.cancelRequested === true && fixes.flushSeesCancel)
      return options.onCancel ? { kind: "next", step: options.onCancel } : { kind: "stop" };
    if (s.memory.reaped === true) return { kind: "stop" };
    return options.outcomes[String(s.memory.step)] ?? { kind: "done" };
  };
  const isOurs = (s: Statement, row: Instance | undefined): boolean =>
    row !== undefined &&
    row.status === "executing" &&
    row.owner === s.memory.owner &&
    row.visit === s.memory.visit;
  const parentOf = (s: Statement): string | null =>
    ["done", "stop"].includes(outcomeOf(s).kind) && typeof s.memory.parent === "string"
      ? s.memory.parent
      : null;

  /** The guard, and what becomes of a row that fails it. */
  const judge = (s: Statement, row: Instance | undefined): string => {
    const held = isOurs(s, row);
    const truly = row !== undefined && row.status === "executing" && row.claim === s.memory.claim;
    if (!held && truly && row.visit === s.memory.visit)
      s.violate("an outcome under a valid claim was called stale");
    if (held || !fixes.guard) {
      if (!truly) s.violate("an outcome committed under a claim that did not run it");
      return "write";
    }
    return "stale";
  };

  const claimPlain: Program = {
    claim: {
      does: "picker/claim_runnable",
      when: (s) => runnable(s).length > 0,
      run: (s) => {
        for (const id of runnable(s)) {
          if (!s.lock("instances", id)) continue;
          if (fixes.claimRechecks && s.newest("instances", id)?.status !== "runnable") continue;
          if (s.newest("instances", id) === undefined) continue;
          take(s, id, false);
          s.commit();
          return "inbox";
        }
        s.rollback();
        return "claim";
      },
    },
  };
  const claimLimited: Program = {
    claim: {
      does: "picker/lock_candidates",
      when: (s) => runnable(s).some((id) => mayStart(s, id)),
      run: (s) => {
        for (const id of runnable(s)) {
          if (!mayStart(s, id) || !s.lock("instances", id)) continue;
          if (s.newest("instances", id)?.status !== "runnable") continue;
          s.memory.id = id;
          return limit === "gate" ? "admit" : "take";
        }
        s.rollback();
        return "claim";
      },
    },
    admit: {
      does: "limiter/lock_buckets",
      run: (s) => {
        if (fixes.admitUnderLock && !s.lock("gates", "g")) {
          s.rollback();
          return "claim";
        }
        const gate = fixes.admitUnderLock ? s.newest("gates", "g") : s.see("gates", "g");
        if (gate === undefined || gate.available < 1) {
          s.rollback();
          return "claim";
        }
        s.memory.left = gate.available - 1;
        return "debit";
      },
    },
    debit: {
      does: "limiter/write_buckets",
      waits: () => [{ table: "gates", key: "g" }],
      isAtomic: true,
      run: (s) => {
        s.lock("gates", "g");
        const gate = s.newest("gates", "g");
        if (gate !== undefined) s.write("gates", "g", { ...gate, available: Number(s.memory.left) });
        return "take";
      },
    },
    take: {
      does: "picker/claim_admitted",
      // An entry that another transaction is just making is waited for.
      isHeldUp: (s) =>
        limit === "exclusive" &&
        fixes.uniqueActiveKey &&
        s.isBeingWritten((row) => row.status === "executing" && row.key === "k"),
      run: (s) => {
        const taken = fixes.uniqueActiveKey && limit === "exclusive" && isKeyTaken(s);
        if (taken) {
          s.rollback();
          return "claim";
        }
        take(s, String(s.memory.id), limit === "gate");
        return "claimed";
      },
    },
    claimed: commit(() => "inbox"),
  };
  const mayStart = (s: Statement, id: string): boolean => {
    if (limit === "gate") return (s.see("gates", "g")?.available ?? 0) > 0;
    if (limit === "exclusive") return !s.seen("instances").some(([, row]) => isActive(row));
    return id !== "";
  };
  const isActive = (row: Instance): boolean => row.status === "executing" && row.key === "k" && !row.slot;
  // The index knows what is committed now, whatever the snapshot shows.
  const isKeyTaken = (s: Statement): boolean =>
    s.seen("instances").some(([id]) => {
      const row = s.newest("instances", id);
      return row !== undefined && isActive(row);
    });

  return {
    ...(limit === "none" ? claimPlain : claimLimited),
    inbox: {
      does: "picker/load_inboxes",
      run: (s) => {
        const names = s.memory.awaits as string[];
        s.memory.awaited = s
          .seen("signals")
          .filter(
            ([, signal]) => signal.target === s.memory.id && !signal.consumed && names.includes(signal.name),
          )
          .map(([id]) => id);
        const outcome = options.outcomes[String(s.memory.step)];
        return outcome?.kind === "children" && !fixes.spawnWithPark ? "spawn" : "lock";
      },
    },
    // Without the fix: children are committed before the row that waits for them.
    spawn: {
      does: "flusher/insert_children, committed by itself",
      isAtomic: true,
      run: (s) => {
        insertChildren(s, options.outcomes[String(s.memory.step)]);
        s.commit();
        return "lock";
      },
    },
    lock: {
      does: "flusher/lock_batch",
      waits: (s) => {
        const parent = parentOf(s);
        return [
          { table: "instances", key: String(s.memory.id) },
          ...(parent === null || !fixes.lockParents ? [] : [{ table: "instances" as const, key: parent }]),
        ];
      },
      run: (s) => {
        const id = String(s.memory.id);
        s.lock("instances", id);
        const parent = parentOf(s);
        if (parent !== null && fixes.lockParents) s.lock("instances", parent);
        const row = s.newest("instances", id);
        // One statement that locks and updates finds the row by its snapshot's version.
        if (!fixes.lockBeforeUpdate && JSON.stringify(s.see("instances", id)) !== JSON.stringify(row)) {
          judge(s, undefined);
          if (isOurs(s, row)) s.violate("an outcome under a valid claim was called stale");
          s.rollback();
          return again(s);
        }
        s.memory.hadSlot = row?.slot ?? false;
        if (judge(s, row) === "stale") {
          // Without the fix: whoever claimed with a slot gives one back.
          if (!fixes.creditUnderGuard && limit === "gate") return "credit";
          return "stale";
        }
        if (!fixes.lockBeforeUpdate) {
          apply(s);
          return afterApply(s);
        }
        return outcomeOf(s).kind === "children" && fixes.spawnWithPark ? "children" : "apply";
      },
    },
    stale: commit(again),
    children: {
      does: "flusher/insert_children",
      isAtomic: true,
      run: (s) => {
        insertChildren(s, outcomeOf(s));
        return "apply";
      },
    },
    apply: {
      does: "flusher/apply_outcomes",
      run: (s) => {
        apply(s);
        return afterApply(s);
      },
    },
    consume: {
      does: "flusher/consume_signals",
      isAtomic: true,
      run: (s) => {
        consume(s);
        return parentOfEnded(s) === null ? afterRiders(s) : fixes.joinWithEnd ? "join" : "commitEnd";
      },
    },
    join: {
      does: "flusher/join_parents",
      waits: (s) => (fixes.lockParents ? [] : [{ table: "instances", key: String(s.memory.parent) }]),
      run: (s) => {
        join(s, String(s.memory.parent), Number(s.memory.round), fixes);
        return afterRiders(s);
      },
    },
    // Without the fix: the end is committed, the join follows.
    commitEnd: commit(() => "joinLate"),
    joinLate: {
      does: "flusher/join_parents, in a transaction of its own",
      waits: (s) => [{ table: "instances", key: String(s.memory.parent) }],
      run: (s) => {
        s.lock("instances", String(s.memory.parent));
        join(s, String(s.memory.parent), Number(s.memory.round), fixes);
        return afterRiders(s);
      },
    },
    credit: {
      does: "flusher/credit_slots",
      waits: () => [{ table: "gates", key: "g" }],
      isAtomic: true,
      run: (s) => {
        credit(s);
        return "commit";
      },
    },
    commit: {
      does: "COMMIT",
      isAtomic: true,
      run: (s) => {
        s.commit();
        return !fixes.creditWithCommit && s.memory.hadSlot === true ? "creditLate" : again(s);
      },
    },
    // Without the fix: the slot comes back after the commit, unless somebody dies in between.
    creditLate: {
      does: "flusher/credit_slots, in a transaction of its own",
      waits: () => [{ table: "gates", key: "g" }],
      isAtomic: true,
      run: (s) => {
        credit(s);
        s.commit();
        return again(s);
      },
    },
  };

  function insertChildren(s: Statement, outcome: Outcome | undefined): void {
    if (outcome?.kind !== "children") return;
    const parent = String(s.memory.id);
    const round = Number(s.memory.visit) + 1;
    for (let n = 1; n <= outcome.count; n++) {
      // Without the fix each try makes children of its own.
      const id = fixes.spawnWithPark
        ? `${parent}.${round}.${n}`
        : `${parent}.${round}.${n}.${String(s.memory.claim)}`;
      s.write("instances", id, instance({ step: "child", parent, round }));
    }
  }

  function apply(s: Statement): void {
    const id = String(s.memory.id);
    const row = s.newest("instances", id);
    if (row === undefined) return;
    const outcome = outcomeOf(s);
    const awaited = (s.memory.awaited as string[]) ?? [];
    const next = outcome.kind === "retry" ? row.visit : Number(s.memory.visit) + 1;
    const base: Partial<Instance> = {
      owner: null,
      claim: null,
      slot: false,
      cancelRequested: false,
      cancelled: row.cancelled || (row.cancelRequested && fixes.flushSeesCancel),
      visit: next,
      attempt: attemptAfter(outcome, row.attempt),
    };
    if (s.note(`visit ${id} ${s.memory.visit} attempt ${s.memory.attempt}`) > 1)
      s.violate(`two outcomes of one attempt of visit ${s.memory.visit} committed`);
    switch (outcome.kind) {
      case "next":
        s.change(id, {
          ...base,
          status: "runnable",
          step: outcome.step,
          awaits: [],
          seen: [],
          wokenBy: null,
          pending: 0,
        });
        break;
      case "retry":
        s.change(id, { ...base, status: "runnable" });
        break;
      case "await": {
        const seen = [...new Set([...((s.memory.seen as string[]) ?? []), ...awaited])];
        const found =
          fixes.recheckAtPark &&
          s
            .seen("signals")
            .some(
              ([key, signal]) =>
                signal.target === id &&
                !signal.consumed &&
                outcome.names.includes(signal.name) &&
                !seen.includes(key),
            );
        s.change(id, {
          ...base,
          status: found ? "runnable" : "awaiting_signal",
          step: outcome.step,
          awaits: outcome.names,
          seen,
          wokenBy: found ? "signal" : null,
          pending: 0,
        });
        break;
      }
      case "children": {
        const children = s
          .seen("instances")
          .filter(([, child]) => child.parent === id && child.round === next);
        // Without the fix only its own children count.
        const mine = fixes.spawnWithPark
          ? children
          : children.filter(([key]) => key.endsWith(String(s.memory.claim)));
        s.change(id, {
          ...base,
          status: mine.length > 0 ? "awaiting_children" : "runnable",
          step: outcome.step,
          awaits: [],
          seen: [],
          wokenBy: null,
          pending: mine.length,
        });
        break;
      }
      case "done":
        s.change(id, { ...base, status: "done", awaits: [], seen: [], wokenBy: null, pending: 0 });
        break;
      case "stop":
        s.change(id, { ...base, status: "failed", pending: 0 });
        break;
    }
    s.memory.outcome = outcome.kind;
  }

  function afterApply(s: Statement): string {
    if (["next", "children", "done"].includes(String(s.memory.outcome)) && hasRead(s)) return "consume";
    if (parentOfEnded(s) !== null) return fixes.joinWithEnd ? "join" : "commitEnd";
    return afterRiders(s);
  }

  function hasRead(s: Statement): boolean {
    if (s.memory.outcome === "done")
      return s.seen("signals").some(([, signal]) => signal.target === s.memory.id && !signal.consumed);
    return ((s.memory.awaited as string[]) ?? []).length > 0;
  }

  function parentOfEnded(s: Statement): string | null {
    const ends = s.memory.outcome === "done" || s.memory.outcome === "stop";
    return ends && typeof s.memory.parent === "string" ? s.memory.parent : null;
  }

  function afterRiders(s: Statement): string {
    return s.memory.hadSlot === true && fixes.creditWithCommit ? "credit" : "commit";
  }

  function consume(s: Statement): void {
    const awaited = (s.memory.awaited as string[]) ?? [];
    for (const [key, signal] of s.seen("signals")) {
      if (signal.target !== s.memory.id || signal.consumed) continue;
      if (s.memory.outcome !== "done" && !awaited.includes(key)) continue;
      s.lock("signals", key);
      s.note(`consumed ${signal.target} ${signal.name} ${signal.dedup ?? key}`);
      s.write(
        "signals",
        key,
        signal.dedup !== null && fixes.consumedStay ? { ...signal, consumed: true } : null,
      );
    }
  }
}

function attemptAfter({ kind }: Outcome, attempt: number): number {
  if (kind === "retry") return attempt + 1;
  return kind === "done" || kind === "stop" ? attempt : 0;
}

export function credit(s: Statement): void {
  s.lock("gates", "g");
  const gate = s.newest("gates", "g");
  if (gate === undefined) return;
  if (gate.available >= gate.capacity) s.violate("a slot was credited that nobody held");
  s.write("gates", "g", { ...gate, available: Math.min(gate.available + 1, gate.capacity) });
}

/** Counts one ended child off its parent. */
export function join(s: Statement, parent: string, round: number, fixes: Fixes): void {
  // Without the lock of the batch the update takes it, out of order.
  s.lock("instances", parent);
  const row = s.newest("instances", parent);
  if (row === undefined || row.status !== "awaiting_children") return;
  if (fixes.rounds && row.visit !== round) return;
  const pending = Math.max(row.pending - 1, 0);
  if (pending > 0) s.write("instances", parent, { ...row, pending });
  else wake(s, parent, row);
}

/** A parent's join fires. */
export function wake(s: Statement, parent: string, row: Instance): void {
  if (s.note(`join ${parent} ${row.visit}`) > 1) s.violate(`the join of round ${row.visit} fired twice`);
  const open = s
    .seen("instances")
    .filter(([, child]) => child.parent === parent && child.round === row.visit)
    .filter(([id]) => LIVE.includes(s.newest("instances", id)?.status ?? "done"));
  if (open.length > 0) s.violate(`the join of round ${row.visit} fired before ${open[0]?.[0]} had ended`);
  s.write("instances", parent, { ...row, status: "runnable", wokenBy: "children", pending: 0 });
}
