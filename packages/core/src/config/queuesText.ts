// QueuesText: queues as a flag or a variable writes them: `default=10,email`.

import { CONCURRENCY_DEFAULT } from "./configShape.js";

/**
 * The queues of the text. One without a number runs as many steps at once as `configured` says, or the default.
 * What is no number stays a text: the configuration's schema refuses it and shows it.
 */
export function parseQueues(text: string, configured: unknown): Record<string, unknown> {
  const entries = text.split(",").map((item): [string, unknown] => {
    const [queue = "", count] = item.split("=", 2).map((part) => part.trim());
    if (count !== undefined) return [queue, /^\d+$/.test(count) ? Number(count) : count];
    return [queue, numberIn(configured, queue) ?? CONCURRENCY_DEFAULT];
  });
  return Object.fromEntries(entries);
}

function numberIn(queues: unknown, queue: string): unknown {
  return typeof queues === "object" && queues !== null && Object.hasOwn(queues, queue)
    ? Reflect.get(queues, queue)
    : undefined;
}
