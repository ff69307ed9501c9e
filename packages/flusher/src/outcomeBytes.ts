// Outcome bytes: how much an outcome weighs in a batch and in the node's back-pressure. An estimate of its texts, the
// same at its arrival and at its answer.

import type { WireOutcome } from "#core/protocol/outcome.js";

/** What an outcome weighs beside its texts. */
const BASE_BYTES = 200;

export function outcomeBytes({ decision, awaited, shown }: WireOutcome): number {
  let bytes = BASE_BYTES + (awaited.length + shown.length) * 8;
  switch (decision.kind) {
    case "done":
      return bytes + decision.result.length;
    case "stop":
      return bytes + decision.reason.length;
    case "children":
      for (const child of decision.children) bytes += BASE_BYTES + child.state.length;
      return bytes + decision.state.length;
    default:
      return bytes + decision.state.length;
  }
}
