// Signals: payloads as a step sees them. Whoever signals by key, or by SQL, need not know the machine: so a declared
// payload is held to its schema once more where it is read.

import type { RuntimeFsm } from "./definition.js";
import { parseBy } from "./schema.js";
import type { SignalOf, SignalTypes } from "./stepContext.js";

type Signal = SignalOf<SignalTypes>;

/** Stored signals with their payloads by schema. @throws UsageError INVALID_PAYLOAD, with the path `inbox[2].payload.by` */
export function parseSignals(fsm: RuntimeFsm, stored: readonly Signal[], path: string): readonly Signal[] {
  const schemas = fsm.signalSchemas;
  if (schemas === null) return stored;
  return stored.map((signal, index) => {
    const schema = schemas.get(signal.name);
    if (schema === undefined) return signal;
    const payload = parseBy(schema, signal.payload, {
      path: `${path}[${index}].payload`,
      code: "INVALID_PAYLOAD",
    });
    return { ...signal, payload };
  });
}
