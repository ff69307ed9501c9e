// Two projects. "unit": pure rules, beside their source, compiled from it. "system": what needs a database, threads or
// processes, under test/, against the built dist; it gets one Postgres a run (test/support/globalSetup.mjs).
// Files named *.slow.test.ts run under `npm run test:slow` only.
const slow = process.env.GEN_DURABLE_TEST_SLOW === "1";

const transform = {
  "^.+\\.ts$": [
    "@swc/jest",
    { jsc: { parser: { syntax: "typescript" }, target: "es2023" }, module: { type: "es6" } },
  ],
};

export default {
  // Two files at once: the tests' own threads and server need cores as well.
  maxWorkers: 2,
  testTimeout: 60_000,
  reporters: [["default", { summaryThreshold: 1 }], "<rootDir>/test/support/countReporter.mjs"],
  projects: [
    {
      displayName: "unit",
      roots: ["<rootDir>/packages"],
      testMatch: ["<rootDir>/packages/*/src/**/*.test.ts"],
      extensionsToTreatAsEsm: [".ts"],
      transform,
      moduleNameMapper: {
        "^#(core|executor|flusher|coordinator|cli)/(.*)\\.js$": "<rootDir>/packages/$1/src/$2.ts",
        "^(\\.{1,2}/.*)\\.js$": "$1",
      },
      modulePathIgnorePatterns: ["<rootDir>/packages/cli/dist"],
    },
    {
      displayName: "system",
      roots: ["<rootDir>/test"],
      testMatch: ["<rootDir>/test/**/*.test.ts"],
      testPathIgnorePatterns: ["/node_modules/", ...(slow ? [] : ["\\.slow\\.test\\.ts$"])],
      extensionsToTreatAsEsm: [".ts"],
      transform,
      moduleNameMapper: { "^(\\.{1,2}/.*)\\.js$": "$1" },
      globalSetup: "<rootDir>/test/support/globalSetup.mjs",
      globalTeardown: "<rootDir>/test/support/globalTeardown.mjs",
    },
  ],
};
