// The longer benchmarks, small.
import { test } from "@jest/globals";
import { expectChecks } from "./run.js";

test.each([
  ["fan-out", "--children 50 --rounds 1", "fan_out"],
  ["drain", "--rows 500 --rounds 1", "drain_ratio two_nodes_ratio defaults_ratio"],
  [
    "latency",
    "--inserts 10 --delayed 20 --idleSeconds 2 --loadSeconds 2 --loadDrainRows 4000",
    "start_p50 done_p50 start_p99_to_raw done_p99_to_raw delayed_lateness_p50 half_load_done_p99 idle_queries_per_second",
  ],
  [
    "timers",
    "--instances 200 --withinMs 2000 --idleSeconds 2",
    "lateness_p50 lateness_p99 idle_queries_waiting",
  ],
  [
    "flat",
    "--snapshotRows 5000 --terminalRows 10000 --drainRows 2000 --rounds 1 --soakSeconds 2 --backlogRows 2000",
    "snapshot_ratio terminal_ratio soak_ratio",
  ],
  ["memory", "--rows 5000 --large 10", "drain_peak further_executor large_peak"],
  ["chain", "--instances 200 --steps 3 --rounds 1", "inline_ratio_3"],
])(
  "bench %s prints its checks",
  (name, options, names) => expectChecks(name, options.split(" "), names.split(" ")),
  240_000,
);
