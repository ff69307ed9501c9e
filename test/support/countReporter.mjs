// A jest reporter whose line is the run's last one: `N passed, N failed`, alone, for every CI to read.
import { writeSync } from "node:fs";

export default class CountReporter {
  onRunComplete(_contexts, results) {
    // A file that could not even be loaded counts as one failure.
    const failed = results.numFailedTests + results.numRuntimeErrorTestSuites;
    // Jest prints its own summary after every reporter has had its turn.
    process.once("exit", () => writeSync(1, `\n${results.numPassedTests} passed, ${failed} failed\n`));
  }
}
