// Child: an instance to be created by `ctx.scheduleChildren`. `definition.child(...)` makes a typed one; `childOf` names
// the machine instead, for cycles in which the definition does not exist yet.

import type { InsertOptions } from "./insertOptions.js";

// A registered symbol: the definitions' copy of this package may be another one than the engine's.
const CHILD = Symbol.for("gen-durable.child");

declare const opaque: unique symbol;

/** A child to be created. Made by `definition.child` or `childOf`. */
export interface Child {
  readonly [opaque]: "Child";
}

/** What a child was made of: the user's values, not yet checked (decide.ts does). */
export interface ChildDraft {
  fsm: unknown;
  /** null: the highest version that the worker knows. */
  version: unknown;
  options: unknown;
}

/** A child of the machine with this name; `version` absent: the highest one the worker knows. Its state is checked when the parent's outcome is. */
export function childOf(fsm: string, options: InsertOptions & { version?: number } = {}): Child {
  const { version = null, ...rest } = options;
  return makeChild({ fsm, version, options: rest });
}

export function makeChild(draft: ChildDraft): Child {
  return Object.freeze({ [CHILD]: draft }) as unknown as Child; // opaque: users see no property
}

/** What a child was made of; undefined when the value is no child. */
export function childDraftOf(child: unknown): ChildDraft | undefined {
  if (typeof child !== "object" || child === null || !Object.hasOwn(child, CHILD)) return undefined;
  return Reflect.get(child, CHILD) as ChildDraft; // only makeChild sets the symbol
}
