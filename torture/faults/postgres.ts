// Faults of the database: killed, stopped at once, its backends terminated, its commits slow.

import type { FaultKind, FaultScene } from "./fault.js";

async function crash(
  { random, keeper, ledger, pause }: FaultScene,
  signal: "SIGKILL" | "SIGQUIT",
): Promise<void> {
  const isOver = ledger.trouble(null, "database down");
  await keeper.crash(signal);
  await pause(random.between(0, 1_200));
  await keeper.restart();
  isOver();
}

export const killPostgres: FaultKind = {
  name: "postgres killed",
  needs: "database",
  run: (scene) => crash(scene, "SIGKILL"),
};

export const stopPostgres: FaultKind = {
  name: "postgres stopped at once",
  needs: "database",
  run: (scene) => crash(scene, "SIGQUIT"),
};

export const terminateBackends: FaultKind = {
  name: "backends terminated",
  needs: "database",
  run: async ({ random, ledger, query, pause }) => {
    const isOver = ledger.trouble(null, "backends terminated");
    for (let times = random.between(1, 3); times > 0; times--) {
      const modulus = random.pick([1, 2, 3]);
      await query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name LIKE 'gen-durable%' AND pid % $1 = 0`,
        [modulus],
      );
      await pause(random.between(20, 400));
    }
    isOver();
  },
};

/**
 * Commits hang after they are written and before they are answered, as on a disk or a replica that stalls: they wait for a
 * standby that does not exist. Sessions that end meanwhile leave their last commit in doubt.
 */
export const slowCommits: FaultKind = {
  name: "commits slow",
  needs: "database",
  run: async ({ random, ledger, query, pause }) => {
    const isOver = ledger.trouble(null, "commits slow");
    for (let times = random.between(1, 4); times > 0; times--) {
      await setStandby(query, "torture");
      await pause(random.between(50, 900));
      await setStandby(query, "");
      await pause(random.between(20, 200));
    }
    isOver();
  },
};

async function setStandby(query: FaultScene["query"], name: string): Promise<void> {
  await query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
  await query("SELECT pg_reload_conf()");
}
