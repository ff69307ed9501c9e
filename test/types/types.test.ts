// What the compiler must accept and refuse, on both compilers that users have, against the built declarations. Each
// refusal is a `@ts-expect-error`, which is an error of its own where the compiler accepts the line below it.

import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "@jest/globals";

const folder = dirname(fileURLToPath(import.meta.url));
const { resolve } = createRequire(import.meta.url);

async function compile(compiler: string): Promise<string> {
  const bin = join(dirname(resolve(`${compiler}/package.json`)), "bin", "tsc");
  try {
    await promisify(execFile)(process.execPath, [bin, "-p", folder, "--pretty", "false"]);
    return "";
  } catch (error) {
    return String(Reflect.get(Object(error), "stdout") || error);
  }
}

test.each([["typescript"], ["typescript-5.9"]])(
  "%s accepts what is right and refuses what is wrong",
  async (compiler) => {
    expect(await compile(compiler)).toBe("");
  },
  120_000,
);
