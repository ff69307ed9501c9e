// Invariants: those of the engine's own list that the model can see, on what is committed.

import type { World } from "./database.js";

/** 4 to 7: what holds whenever nothing is in the middle of a transaction, since every transaction keeps it. */
export function always({ tables }: World): string | null {
  const instances = Object.entries(tables.instances);
  const exclusive = instances.filter(([, row]) => row.status === "executing" && row.key === "k" && !row.slot);
  if (exclusive.length > 1)
    return `two instances of one exclusive key execute: ${exclusive.map(([id]) => id)}`;
  const held = instances.filter(([, row]) => row.status === "executing" && row.slot).length;
  for (const gate of Object.values(tables.gates)) {
    if (held > gate.capacity) return `${held} instances hold slots of a gate of ${gate.capacity}`;
    if (gate.available < 0) return "the gate's counter is negative";
  }
  for (const [id, row] of instances) {
    if (row.status !== "awaiting_signal") continue;
    const missed = Object.entries(tables.signals).find(
      ([key, signal]) =>
        signal.target === id &&
        !signal.consumed &&
        row.awaits.includes(signal.name) &&
        !row.seen.includes(key),
    );
    if (missed !== undefined)
      return `${id} is parked beside a signal that it awaits and has not seen: a lost wake-up`;
  }
  for (const [fact, count] of Object.entries(tables.history)) {
    if (fact.startsWith("stored ") && count > 1 && !fact.endsWith("null"))
      return `a signal was stored ${count} times under one dedup key`;
  }
  return null;
}

/** 5, 8 and 10: what holds when nobody has anything left to do. */
export function finallyHolds({ tables }: World): string | null {
  const instances = Object.entries(tables.instances);
  const held = instances.filter(([, row]) => row.status === "executing" && row.slot).length;
  for (const gate of Object.values(tables.gates))
    if (gate.available !== gate.capacity - held)
      return `a slot has leaked: ${gate.available} of ${gate.capacity} are free while ${held} are held`;
  const orphans = orphaned(instances.map(([id]) => id));
  if (orphans !== null) return orphans;
  for (const [id, row] of instances) {
    if (row.status === "executing" && row.claim === null) return `${id} executes under no claim`;
    const children = instances.filter(([, child]) => child.parent === id);
    const open = children.filter(
      ([, child]) => child.round === row.visit && child.status !== "done" && child.status !== "failed",
    );
    if (row.status === "awaiting_children" && open.length === 0)
      return `${id} waits for children of which none is left to end`;
    if (row.status === "awaiting_children" && open.length !== row.pending)
      return `${id} counts ${row.pending} children, and ${open.length} are left to end`;
    // A cancel that was promised is kept.
    const promised = tables.history[`cancelling ${id}`] ?? tables.history[`cancelled ${id}`];
    if (promised !== undefined && row.status === "done" && !row.cancelled)
      return `${id} was promised its cancellation, and is done`;
  }
  const strangers = instances.filter(
    ([, child]) =>
      child.parent !== null &&
      child.round !== null &&
      child.round > (tables.instances[child.parent]?.visit ?? Number.POSITIVE_INFINITY),
  );
  if (strangers.length > 0) return `${strangers[0]?.[0]} is of a round that its parent never came to`;
  return null;
}

/** Children of one round that were made by different tries of the parent. */
function orphaned(ids: readonly string[]): string | null {
  const makers = new Map<string, Set<string>>();
  for (const id of ids) {
    const [parent, round, , maker] = id.split(".");
    if (maker === undefined) continue;
    const name = `${parent}.${round}`;
    makers.set(name, (makers.get(name) ?? new Set()).add(maker));
  }
  for (const [round, tries] of makers)
    if (tries.size > 1) return `round ${round} has children of ${tries.size} tries of its parent: orphans`;
  return null;
}
