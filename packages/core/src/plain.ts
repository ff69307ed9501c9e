// Plain: the values that JSON holds as they are, and how places in them are called.

/** Levels of nesting; far below what Postgres's and V8's own recursion can take. */
export const JSON_DEPTH_MAX = 500;

export interface EncodeOptions {
  /** Bytes of the text, UTF-8. */
  maxBytes: number;
  /** What the value is called in an error: `state`, `children[3].state`. */
  path: string;
}

/** An object made by `{}` or JSON.parse, in any realm: its prototype is a root. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Whether JSON would ask the value for another one, wherever it has the method from. */
export function hasToJson(value: object): boolean {
  return "toJSON" in value && typeof value.toJSON === "function";
}

/** `state` and `["items", 3, "when"]` make `state.items[3].when`. */
export function joinPath(base: string, keys: readonly PropertyKey[]): string {
  let path = base;
  for (const key of keys) {
    if (typeof key === "number") path += `[${key}]`;
    else if (typeof key === "string" && /^[A-Za-z_$][\w$]*$/.test(key)) path += path === "" ? key : `.${key}`;
    else path += `[${typeof key === "symbol" ? String(key) : JSON.stringify(key)}]`;
  }
  return path;
}
