// Kinds: every kind of work that a run has.

import { chains, exclusiveKeys, gates, rates, retries, runAhead, slowSteps, timers } from "./chains.js";
import { cancels, clientRetries, guards, identities, jobs, poisons } from "./control.js";
import { families } from "./families.js";
import { packs, upserts, waits } from "./signals.js";
import type { WorkKind } from "./work.js";

export const WORK_KINDS: readonly WorkKind[] = [
  chains,
  runAhead,
  slowSteps,
  exclusiveKeys,
  gates,
  rates,
  timers,
  retries,
  waits,
  packs,
  upserts,
  families,
  cancels,
  clientRetries,
  identities,
  jobs,
  poisons,
  guards,
];
