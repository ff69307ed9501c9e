// Nodes that cannot start end a torture, with what the last one said.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@jest/globals";
import { Fleet } from "../../torture/fleet.js";
import { Keeper } from "../../torture/keeper.js";
import { Ledger } from "../../torture/ledger.js";

test("nodes that cannot start are not started for ever", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gen-durable-fleet-"));
  const bin = join(folder, "broken.mjs");
  writeFileSync(bin, 'console.error("no engine here"); process.exit(3);\n');
  const keeper = await Keeper.start();
  const fleet = new Fleet({
    seed: 1,
    engine: { bin, machines: [] },
    keeper,
    ledger: new Ledger(folder),
    url: keeper.url,
    folder,
    journal: folder,
    failedStartsMax: 3,
  });
  try {
    await fleet.open("node-1");
    await expect(fleet.settle()).rejects.toThrow(/could not start; .* status 3: no engine here/);
  } finally {
    await fleet.stopAll();
    await keeper.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
