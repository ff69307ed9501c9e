// Fault: one thing that goes wrong, drawn from the seed. It takes what it needs for itself, does its harm, and leaves the
// run able to go on.

import type pg from "pg";
import type { Caller } from "../caller.js";
import type { Berth, Fleet } from "../fleet.js";
import type { Keeper } from "../keeper.js";
import type { Ledger } from "../ledger.js";
import type { Relay } from "../relay.js";
import type { Random } from "../seed.js";

export interface FaultScene {
  random: Random;
  fleet: Fleet;
  keeper: Keeper;
  ledger: Ledger;
  /** A caller for faults that are steps. */
  caller: Caller;
  /** The number under which a fault's own instances run: negative. */
  w: number;
  /** The callers' way to the database. */
  clientRelay: Relay;
  /** Runs one statement over a connection of the harness; reconnects. */
  query: pg.Pool["query"];
  pause(ms: number): Promise<void>;
  /** What goes on after the fault is over. */
  later(aftermath: Promise<void>): void;
}

export interface FaultKind {
  name: string;
  /** What it must have for itself: a node, the database, or nothing. */
  needs: "berth" | "database" | "nothing";
  run(scene: FaultScene, berth: Berth | undefined): Promise<void>;
}
