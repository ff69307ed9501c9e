// `npm run bench` lists the benchmarks, `npm run bench -- <name> [--option value] [--json]` runs one. With `--json` the last
// line is one object, `{ checks: { name: { value, target, ok } } }`. A target that is missed is printed, it is no error.

import { parseArgs } from "node:util";
import { Bench, type Benchmark } from "./bench.js";
import { chain } from "./chain.js";
import { drain } from "./drain.js";
import { fanOut } from "./fanOut.js";
import { flat } from "./flat.js";
import { insert } from "./insert.js";
import { latency } from "./latency.js";
import { limits } from "./limits.js";
import { memory } from "./memory.js";
import { peers } from "./peers.js";
import { Report } from "./report.js";
import { starvation } from "./starvation.js";
import { timers } from "./timers.js";

const BENCHMARKS: readonly Benchmark[] = [
  drain,
  chain,
  fanOut,
  latency,
  insert,
  limits,
  starvation,
  flat,
  timers,
  memory,
  peers,
];

const [name, ...rest] = process.argv.slice(2);
const chosen = BENCHMARKS.find((benchmark) => benchmark.name === name);
if (name === undefined || name === "--help") list();
else if (chosen === undefined) {
  console.error(`there is no benchmark "${name}"`);
  list();
  process.exitCode = 2;
} else await run(chosen, rest);

function list(): void {
  console.log("npm run bench -- <name> [--option value] [--json]\n");
  for (const { name, about, options } of BENCHMARKS) {
    console.log(`${name.padEnd(10)}${about}`);
    for (const [option, value] of Object.entries(options)) console.log(`          --${option} ${value}`);
  }
}

async function run(benchmark: Benchmark, args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      json: { type: "boolean", default: false },
      ...Object.fromEntries(
        Object.entries(benchmark.options).map(([option, value]) => [
          option,
          { type: "string" as const, default: String(value) },
        ]),
      ),
    },
  });
  const given: Record<string, unknown> = values;
  const options = Object.fromEntries(
    Object.keys(benchmark.options).map((option) => [option, Number(given[option])]),
  );
  const report = new Report();
  const bench = await Bench.start();
  const interrupt = (): void => void bench.close().finally(() => process.exit(130));
  process.once("SIGINT", interrupt);
  try {
    console.log(`${benchmark.name}: ${benchmark.about}`);
    report.printMachine(await bench.describeServer());
    console.log(`options: ${JSON.stringify(options)}`);
    await benchmark.run(bench, options, report);
    if (values.json === true) report.printJson();
  } finally {
    await bench.close();
  }
}
