// Events: what happens in the node's threads, published on node:diagnostics_channel in the main thread, one channel an
// event (`gen-durable:<name>`, core/src/events.ts lists them).

import { channel } from "node:diagnostics_channel";

/** Publishes one event; costs next to nothing when nobody subscribes. A subscriber that throws is `diagnostics_channel`'s business, not ours. */
export function publishEvent(name: string, fields: Record<string, unknown>): void {
  const target = channel(`gen-durable:${name}`);
  if (target.hasSubscribers) target.publish(fields);
}

/** Whether anybody listens to an event. */
export function hasSubscribers(name: string): boolean {
  return channel(`gen-durable:${name}`).hasSubscribers;
}
