// OpenBuffers: every insert buffer of this thread that holds rows, whichever copy of the package it belongs to. A node
// writes them before it ends an executor thread, since steps share clients that nobody closes.

// The modules' timers, not the globals: in an executor thread user code may have replaced those.
import { clearTimeout, setTimeout } from "node:timers";

export interface OpenBuffer {
  flush(): Promise<unknown>;
}

const KEY = Symbol.for("gen-durable.openInsertBuffers");

/** The buffers of this thread that hold rows. */
export function openBuffers(): Set<OpenBuffer> {
  const holder = globalThis as { [KEY]?: Set<OpenBuffer> };
  holder[KEY] ??= new Set();
  return holder[KEY];
}

export function leaveOpenBuffers(buffer: OpenBuffer): void {
  openBuffers().delete(buffer);
}

/** Writes what the buffers hold, for at most `timeoutMs`. Never rejects. Nothing to wait for: resolves at once. */
export async function flushOpenBuffers(timeoutMs: number): Promise<void> {
  const buffers = [...openBuffers()];
  if (buffers.length === 0) return;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, timeoutMs);
  });
  await Promise.race([Promise.allSettled(buffers.map((buffer) => buffer.flush())), late]);
  clearTimeout(timer);
}
