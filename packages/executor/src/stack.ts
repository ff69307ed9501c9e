// Stack: where an error comes from, as far as it says so. What user code throws may be no error, and may throw when asked.

export function stackOf(error: unknown): string | undefined {
  try {
    const stack: unknown =
      typeof error === "object" && error !== null ? Reflect.get(error, "stack") : undefined;
    return typeof stack === "string" ? stack : undefined;
  } catch {
    return undefined;
  }
}
