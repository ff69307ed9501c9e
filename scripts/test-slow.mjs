// The long run: all tests, the slow ones too, on the newest Postgres and again on every older one this machine has.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const OLDER = ["14", "15", "16", "17"];

const folders = OLDER.map((version) => `/usr/lib/postgresql/${version}/bin`).filter((bin) =>
  existsSync(`${bin}/initdb`),
);
let failed = false;
for (const bin of [undefined, ...folders]) {
  console.error(`\ntests on ${bin ?? "the newest Postgres"}`);
  const { status } = spawnSync("npm", ["run", "--silent", "jest", "--", ...process.argv.slice(2)], {
    cwd: root,
    stdio: "inherit",
    env: {
      ...process.env,
      GEN_DURABLE_TEST_SLOW: "1",
      ...(bin === undefined ? {} : { GEN_DURABLE_TEST_POSTGRES_BIN: bin }),
    },
  });
  failed ||= status !== 0;
}
process.exit(failed ? 1 : 0);
