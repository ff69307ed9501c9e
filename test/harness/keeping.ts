// Keeping: a process that starts another, hands it to the keeper, prints its id, and waits to be killed.

import { spawn } from "node:child_process";
import { keep } from "../support/keeper.js";

const folder = process.argv.at(-1) ?? "";
const child = spawn("sh", ["-c", "while true; do sleep 1; done", folder], { stdio: "ignore" });
keep(folder, child.pid);
// Whoever runs this does not name the folder, and must live.
keep(folder, process.ppid);
console.log(child.pid);
setInterval(() => undefined, 1_000);
