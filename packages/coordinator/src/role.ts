// Role: what a node of these settings does not do, in words: whoever reads its log sees it at once.

import type { NodeSettings } from "#core/settings.js";

/** One line for each part that is off. A node fires await deadlines whatever else is off. */
export function describeRole(settings: Pick<NodeSettings, "queues" | "reaper" | "gc">): string[] {
  const { reaper, gc } = settings;
  const lines: string[] = [];
  if (Object.keys(settings.queues).length === 0) {
    const duties = [
      ...(reaper === false ? [] : ["takes back what dead nodes held"]),
      ...(gc === false ? [] : ["removes what ended long ago"]),
      "fires await deadlines",
    ];
    lines.push(`this node serves no queue: it ${duties.join(", ")}`);
  }
  if (reaper === false) lines.push("the reaper is off on this node");
  if (gc === false) lines.push("garbage collection is off on this node");
  return lines;
}
