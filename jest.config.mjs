// Two projects. "unit": pure rules, beside their source, compiled from it. "system": what needs a database, threads or
// processes, under test/, against the built dist.
const transform = {
  "^.+\\.ts$": [
    "@swc/jest",
    { jsc: { parser: { syntax: "typescript" }, target: "es2023" }, module: { type: "es6" } },
  ],
};

export default {
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
      extensionsToTreatAsEsm: [".ts"],
      transform,
    },
  ],
};
