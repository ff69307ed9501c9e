// Invariants: all that is checked, in the order of their numbers.

import { commitBeforeProceed } from "./commitBeforeProceed.js";
import { crashes } from "./crashes.js";
import { deadlocks } from "./deadlocks.js";
import { durability } from "./durability.js";
import { gates } from "./gates.js";
import { identities } from "./identities.js";
import type { Invariant } from "./invariant.js";
import { joins } from "./joins.js";
import { exclusiveKeys } from "./keys.js";
import { liveness } from "./liveness.js";
import { ownership } from "./ownership.js";
import { parks } from "./parks.js";
import { rates } from "./rates.js";
import { results } from "./results.js";

export const INVARIANTS: readonly Invariant[] = [
  results,
  durability,
  commitBeforeProceed,
  ownership,
  exclusiveKeys,
  gates,
  rates,
  parks,
  joins,
  identities,
  liveness,
  deadlocks,
  crashes,
];
