// Storable: what JSON can hold, for the compiler. The same rules, at run time, are core/src/json.ts.

import type { core } from "zod";

export type JsonValue = string | number | boolean | null | JsonObject | readonly JsonValue[];
export type JsonObject = { [key: string]: JsonValue };

/** Any zod schema, of `zod` or `zod/mini`. */
export type Schema<Output = unknown, Input = unknown> = core.$ZodType<Output, Input>;
export type InputOf<S extends Schema> = core.input<S>;
export type OutputOf<S extends Schema> = core.output<S>;

/**
 * `T` where JSON can hold it, and `never` in the places where it cannot: Date, bigint, Map, Set, functions, symbols and
 * instances of classes. `unknown` and `any` pass; run time decides.
 */
export type Storable<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined
    ? T
    : T extends bigint | symbol | ((...args: never) => unknown)
      ? never
      : T extends readonly (infer Item)[]
        ? readonly Storable<Item>[] // an array type is resolved late, so that recursive types end
        : T extends object
          ? { [P in keyof T]: Storable<T[P]> }
          : never;

/** Intersected with a schema's type: changes nothing for a good schema, and names the mistake of another. */
export type StorableSchema<S extends Schema> = [OutputOf<S>] extends [Storable<OutputOf<S>>]
  ? [OutputOf<S>] extends [InputOf<S>]
    ? unknown
    : SchemaMistake<"the schema must give back what it was given: its output is not a valid input (a transform?)">
  : SchemaMistake<"JSON cannot hold what this schema yields: no Date, bigint, Map, Set, function or class instance">;

export interface SchemaMistake<Message extends string> {
  readonly "~mistake": Message;
}
