// Exit: how a command ends. Documented in docs/cli.md; scripts rely on it.

import { messageWithAdvice } from "#core/database/advice.js";
import { GenDurableError } from "#core/errors.js";
import { maskText } from "./mask.js";
import { stderrColors } from "./output.js";

export const EXIT = {
  ok: 0,
  /** It was understood and did not work: the database does not answer, there is no such instance, a drain was not clean. */
  failure: 1,
  /** The command line, the configuration or a value in them is wrong; nothing was done. */
  usage: 2,
} as const;

/** Usage errors by kind whose cause is the surroundings, not the words: they are failures. */
const SURROUNDINGS =
  /^ERR_GEN_DURABLE_(EMBEDDED_|NOT_MIGRATED$|NOT_ALLOWED$|PORT_TAKEN$|SCHEMA_TOO_NEW$|COMPILE_FOLDER$)/;

/** A command's answer is no: it says so on stderr and exits 1, without a stack. */
export class Refusal extends Error {}

/** Prints an error on stderr and says the exit status. GEN_DURABLE_DEBUG=1 shows stacks. */
export function reportError(error: unknown): number {
  const isDebugging = process.env.GEN_DURABLE_DEBUG !== undefined && process.env.GEN_DURABLE_DEBUG !== "0";
  const { red, dim } = stderrColors();
  const lines = [`${red("error:")} ${maskText(messageWithAdvice(error))}`];
  if (isDebugging) lines.push(dim(maskText(stackOf(error))));
  else if (!(error instanceof GenDurableError) && !(error instanceof Refusal))
    lines.push(dim("(GEN_DURABLE_DEBUG=1 shows where)"));
  process.stderr.write(`${lines.join("\n")}\n`);
  if (error instanceof GenDurableError && error.kind === "usage" && !SURROUNDINGS.test(error.code))
    return EXIT.usage;
  return EXIT.failure;
}

function stackOf(error: unknown): string {
  const stacks: string[] = [];
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    stacks.push(cause.stack ?? cause.message);
  return stacks.join("\ncaused by: ");
}
