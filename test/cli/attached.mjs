// A process that uses the embedded server of the folder it runs in, until its stdin ends or says "release".
// Each event is a line of JSON on stdout.
import { createInterface } from "node:readline";
import { attachEmbedded } from "#cli/embedded/attach.js";

const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
try {
  const server = await attachEmbedded(process.argv[2], { report: (line) => say({ event: "report", line }) });
  say({ event: "attached", url: server.url, place: server.place });
  const lines = createInterface({ input: process.stdin });
  lines.on("line", async (line) => {
    if (line === "ensure") say({ event: "running", url: await server.ensureRunning() });
    else lines.close();
  });
  lines.on("close", async () => {
    await server.release();
    say({ event: "released" });
  });
} catch (error) {
  say({ event: "failed", code: error.code, message: error.message });
  process.exitCode = 1;
}
