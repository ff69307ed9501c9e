// Unfinished: what is validated and encoded already and not yet carried out. Refused here and nowhere else; a feature
// that is finished leaves the set.

import { UsageError } from "../errors.js";

export type Feature = "inline";

const UNFINISHED: ReadonlySet<Feature> = new Set(["inline"]);

/** @throws UsageError NOT_SUPPORTED when the feature is not finished */
export function refuseUnfinished(feature: Feature, path: string): void {
  if (!UNFINISHED.has(feature)) return;
  throw new UsageError("NOT_SUPPORTED", `${path}: ${feature} comes with a later version of gen-durable`, {
    path,
    feature,
  });
}
