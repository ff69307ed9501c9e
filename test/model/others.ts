// Others: whoever else writes instances beside the runs: the reaper, timers, clients, the collector, a hand in psql.

import type { Instance, Statement } from "./database.js";
import { commit, type Program } from "./explore.js";
import type { Fixes } from "./fixes.js";
import { credit, join, wake } from "./run.js";

const ENDED = ["done", "failed"];
const LIVE = ["runnable", "executing", "awaiting_signal", "awaiting_children"];

/** Takes back one executing row: its lease may have run out at any moment. Rows whose cancel is asked are ended instead. */
export function reaper({ fixes, onCancel = null }: { fixes: Fixes; onCancel?: string | null }): Program {
  const lost = (s: Statement): string[] =>
    s
      .seen("instances")
      .filter(([, row]) => row.status === "executing")
      .map(([id]) => id);
  return {
    start: {
      does: "reaper/lock_expired",
      when: (s) => lost(s).length > 0,
      run: (s) => {
        for (const id of lost(s)) {
          if (!fixes.reapUnderLock) {
            s.memory.id = id;
            s.memory.parent = s.see("instances", id)?.parent ?? null;
            return "return";
          }
          if (!s.lock("instances", id)) continue;
          const row = s.newest("instances", id);
          if (row?.status !== "executing") continue;
          s.memory.id = id;
          if (row.cancelRequested && fixes.flushSeesCancel) {
            // RP3: through the flush, in a transaction of its own.
            s.memory.claim = row.claim;
            s.memory.parent = row.parent;
            s.memory.round = row.round;
            s.rollback();
            return "cancel";
          }
          return "return";
        }
        s.rollback();
        return "end";
      },
    },
    return: {
      does: "reaper/return_expired",
      waits: (s) => [{ table: "instances", key: String(s.memory.id) }],
      run: (s) => {
        const id = String(s.memory.id);
        s.lock("instances", id);
        const row = s.newest("instances", id);
        if (row === undefined) {
          s.rollback();
          return "end";
        }
        if (ENDED.includes(row.status)) s.violate("completed work was overwritten by the reaper");
        if (row.status === "executing") s.memory.slot = row.slot;
        s.change(id, { status: "runnable", owner: null, claim: null, slot: false, attempt: row.attempt + 1 });
        return s.memory.slot === true ? "credit" : "commit";
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
    commit: commit(() => "end"),
    cancel: {
      does: "flusher/lock_batch",
      waits: (s) => [
        { table: "instances", key: String(s.memory.id) },
        ...(typeof s.memory.parent === "string"
          ? [{ table: "instances" as const, key: s.memory.parent }]
          : []),
      ],
      run: (s) => {
        const id = String(s.memory.id);
        s.lock("instances", id);
        if (typeof s.memory.parent === "string") s.lock("instances", s.memory.parent);
        const row = s.newest("instances", id);
        if (row?.status === "executing" && row.claim === s.memory.claim) return "settle";
        s.rollback();
        return "end";
      },
    },
    settle: {
      does: "flusher/apply_outcomes",
      isAtomic: true,
      run: (s) => {
        const id = String(s.memory.id);
        const row = s.newest("instances", id);
        if (row === undefined) return "commit";
        const base = { owner: null, claim: null, slot: false, cancelRequested: false, cancelled: true };
        s.memory.slot = row.slot;
        if (onCancel !== null)
          s.change(id, {
            ...base,
            status: "runnable",
            step: onCancel,
            visit: row.visit + 1,
            attempt: 0,
            awaits: [],
            seen: [],
          });
        else s.change(id, { ...base, status: "failed", visit: row.visit + 1 });
        if (onCancel === null && typeof s.memory.parent === "string") return "join";
        return s.memory.slot === true ? "credit" : "commit";
      },
    },
    join: {
      does: "flusher/join_parents",
      run: (s) => {
        join(s, String(s.memory.parent), Number(s.memory.round), fixes);
        return s.memory.slot === true ? "credit" : "commit";
      },
    },
  };
}

/** Wakes a park past its deadline. */
export function timer(): Program {
  const due = (s: Statement): string[] =>
    s
      .seen("instances")
      .filter(([, row]) => row.status === "awaiting_signal")
      .map(([id]) => id);
  return {
    start: {
      does: "timers/fire_timeouts",
      when: (s) => due(s).length > 0,
      run: (s) => {
        for (const id of due(s)) {
          if (!s.lock("instances", id) || s.newest("instances", id)?.status !== "awaiting_signal") continue;
          s.change(id, { status: "runnable", wokenBy: "timeout" });
          s.note(`timeout ${id}`);
        }
        s.commit();
        return "end";
      },
    },
  };
}

/** Delivers signals, one after the other. */
export function sender({
  fixes,
  signals,
}: {
  fixes: Fixes;
  signals: readonly { target: string; name: string; dedup: string | null }[];
}): Program {
  return Object.fromEntries(
    signals.map(({ target, name, dedup }, index) => [
      index === 0 ? "start" : `signal${index}`,
      {
        does: "client/deliver_signals",
        waits: () => [{ table: "instances", key: target }],
        run: (s: Statement): string => {
          const then = index + 1 < signals.length ? `signal${index + 1}` : "end";
          s.lock("instances", target);
          const row = fixes.deliveryJudgesLocked ? s.newest("instances", target) : s.see("instances", target);
          const now = s.newest("instances", target);
          if (row === undefined || now === undefined || !LIVE.includes(row.status)) {
            s.note(`no target ${target}`);
            s.commit();
            return then;
          }
          const isKnown =
            fixes.dedup &&
            dedup !== null &&
            s.seen("signals").some(([key]) => {
              const signal = s.newest("signals", key);
              return signal?.target === target && signal.dedup === dedup;
            });
          if (!isKnown) {
            const n = s.note(`stored ${target} ${name} ${dedup ?? index}`);
            s.write("signals", `${target}.${dedup ?? "s"}${index}.${n}`, {
              target,
              name,
              dedup,
              consumed: false,
            });
            if (
              row.status === "awaiting_signal" &&
              row.awaits.includes(name) &&
              now.status === "awaiting_signal"
            )
              s.write("instances", target, { ...now, status: "runnable", wokenBy: "signal" });
          }
          s.commit();
          return then;
        },
      },
    ]),
  );
}

/** Locks a family, one row after the other, in the order in which it is given. */
function lockFamily(family: readonly string[], then: string): Program {
  return Object.fromEntries(
    family.map((id, index) => [
      index === 0 ? "start" : `lock${index}`,
      {
        does: `client/lock_family (${id})`,
        waits: () => [{ table: "instances", key: id }],
        isAtomic: true,
        run: (s: Statement): string => {
          s.lock("instances", id);
          return index + 1 < family.length ? `lock${index + 1}` : then;
        },
      },
    ]),
  );
}

export function canceller({
  fixes,
  target,
  parent = null,
  descendants = [],
  onCancel = null,
}: {
  fixes: Fixes;
  target: string;
  parent?: string | null;
  descendants?: readonly string[];
  onCancel?: string | null;
}): Program {
  const members = [target, ...descendants];
  const ordered = [...members, ...(parent === null ? [] : [parent])].sort();
  const family = fixes.familyInOrder ? ordered : ordered.reverse();
  return {
    ...(fixes.cancelUnderLock
      ? lockFamily(family, "decide")
      : { start: { does: "a read of the status, nothing is locked", isAtomic: true, run: readStatus } }),
    decide: {
      does: "client/cancel_instances",
      waits: () => (fixes.cancelUnderLock ? [] : [{ table: "instances", key: target }]),
      run: (s) => {
        if (!fixes.cancelUnderLock) s.lock("instances", target);
        let ended = 0;
        for (const id of members) {
          const row = s.newest("instances", id);
          if (row === undefined) continue;
          const status = fixes.cancelUnderLock ? row.status : String(s.memory.status);
          if (ENDED.includes(status)) s.note(`already_done ${id}`);
          else if (status === "executing") {
            if (fixes.cancelUnderLock || row.status === "executing") s.change(id, { cancelRequested: true });
            s.note(`cancelling ${id}`);
          } else if (onCancel !== null && id === target) {
            s.change(id, {
              ...CLEARED,
              cancelled: true,
              status: "runnable",
              step: onCancel,
              visit: row.visit + 1,
              attempt: 0,
            });
            s.note(`cancelling ${id}`);
          } else {
            if (ENDED.includes(row.status)) s.violate("completed work was overwritten by a cancel");
            s.change(id, {
              status: "failed",
              cancelled: true,
              owner: null,
              claim: null,
              pending: 0,
              visit: row.visit + 1,
            });
            s.note(`cancelled ${id}`);
            if (id === target && parent !== null) ended++;
          }
        }
        return ended > 0 ? "join" : "commit";
      },
    },
    join: {
      does: "client/join_parents",
      run: (s) => {
        const round = s.newest("instances", target)?.round;
        join(s, String(parent), Number(round), fixes);
        return "commit";
      },
    },
    commit: commit(() => "end"),
  };

  function readStatus(s: Statement): string {
    s.memory.status = s.see("instances", target)?.status ?? "gone";
    return "decide";
  }
}

const CLEARED: Partial<Instance> = {
  awaits: [],
  seen: [],
  wokenBy: null,
  pending: 0,
  cancelRequested: false,
};

/** Retries a child that has failed. */
export function retrier({
  fixes,
  target,
  parent,
}: {
  fixes: Fixes;
  target: string;
  parent: string;
}): Program {
  const hasFailed = (s: Statement): boolean => s.see("instances", target)?.status === "failed";
  const locks = lockFamily([target, parent].sort(), "read");
  const first = locks.start;
  return {
    ...locks,
    ...(first === undefined ? {} : { start: { ...first, when: hasFailed } }),
    read: {
      does: "client/read_failed",
      isAtomic: true,
      run: (s) => {
        const child = s.newest("instances", target);
        const waiting = s.newest("instances", parent);
        if (child?.status !== "failed") {
          s.rollback();
          return "end";
        }
        s.memory.joins = waiting?.status === "awaiting_children" && waiting.visit === child.round;
        return "retry";
      },
    },
    retry: {
      does: "client/retry_instance",
      isAtomic: true,
      run: (s) => {
        const child = s.newest("instances", target);
        const waiting = s.newest("instances", parent);
        if (child === undefined) return "commit";
        const joins = s.memory.joins === true;
        if (joins && waiting !== undefined && fixes.retryRearms)
          s.change(parent, { pending: waiting.pending + 1 });
        s.change(target, {
          status: "runnable",
          attempt: 0,
          visit: child.visit + 1,
          owner: null,
          claim: null,
          cancelRequested: false,
          cancelled: false,
          ...(joins ? {} : { parent: null, round: null }),
        });
        return "commit";
      },
    },
    commit: commit(() => "end"),
  };
}

/** Wakes a parent that waits for children of which none is left. */
export function orphanSweep({ fixes }: { fixes: Fixes }): Program {
  const isOrphaned = (s: Statement, id: string, row: Instance): boolean =>
    row.status === "awaiting_children" &&
    !s
      .seen("instances")
      .some(([, child]) => child.parent === id && child.round === row.visit && LIVE.includes(child.status));
  return {
    start: {
      does: "reaper/find_orphaned_parents",
      when: (s) => s.seen("instances").some(([id, row]) => isOrphaned(s, id, row)),
      run: (s) => {
        const found = s.seen("instances").find(([id, row]) => isOrphaned(s, id, row));
        if (found === undefined) return "end";
        s.memory.id = found[0];
        return "lock";
      },
    },
    lock: {
      does: "reaper/lock_parents",
      run: (s) => {
        const id = String(s.memory.id);
        const isHeld = s.lock("instances", id) && s.newest("instances", id)?.status === "awaiting_children";
        if (isHeld) return "wake";
        s.rollback();
        return "end";
      },
    },
    wake: {
      does: "reaper/wake_orphaned_parents",
      run: (s) => {
        const id = String(s.memory.id);
        const row = s.newest("instances", id);
        if (row !== undefined && (!fixes.orphansLookAgain || isOrphaned(s, id, row))) wake(s, id, row);
        return "commit";
      },
    },
    commit: commit(() => "end"),
  };
}

/** Sets the gate's counter to what executes. */
export function reconciler({ fixes }: { fixes: Fixes }): Program {
  return {
    start: {
      does: "limiter/lock_gates",
      run: (s) => {
        s.memory.held = countHeld(s);
        if (s.lock("gates", "g")) return "heal";
        s.rollback();
        return "end";
      },
    },
    heal: {
      does: "limiter/heal_gates",
      run: (s) => {
        const held = fixes.countAfterLock ? countHeld(s) : Number(s.memory.held);
        const gate = s.newest("gates", "g");
        if (gate !== undefined)
          s.write("gates", "g", { ...gate, available: Math.max(gate.capacity - held, 0) });
        return "commit";
      },
    },
    commit: commit(() => "end"),
  };
}

function countHeld(s: Statement): number {
  return s.seen("instances").filter(([, row]) => row.status === "executing" && row.slot).length;
}

/** Somebody deletes an instance by hand. */
export function deleter(target: string): Program {
  return {
    start: {
      does: "DELETE by hand",
      waits: () => [{ table: "instances", key: target }],
      when: (s) => s.see("instances", target) !== undefined,
      run: (s) => {
        s.lock("instances", target);
        if (s.newest("instances", target) !== undefined) s.write("instances", target, null);
        s.commit();
        return "end";
      },
    },
  };
}
