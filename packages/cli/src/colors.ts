// Colors: whether an output is coloured, and how.

import type { WriteStream } from "node:tty";

export interface Colors {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
}

const CODES: Readonly<Record<keyof Colors, readonly [number, number]>> = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
};

/** NO_COLOR (not empty) turns colours off, FORCE_COLOR (not "0") on; else a terminal has them. */
export function hasColors(stream: Pick<WriteStream, "isTTY">, env: NodeJS.ProcessEnv = process.env): boolean {
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== "") return false;
  if (env.FORCE_COLOR !== undefined) return env.FORCE_COLOR !== "0" && env.FORCE_COLOR !== "false";
  return stream.isTTY === true && env.TERM !== "dumb";
}

/** Functions that colour a text, or leave it as it is. */
export function colorsFor(enabled: boolean): Colors {
  const paint =
    (name: keyof Colors) =>
    (text: string): string =>
      enabled ? `\u001b[${CODES[name][0]}m${text}\u001b[${CODES[name][1]}m` : text;
  return {
    bold: paint("bold"),
    dim: paint("dim"),
    red: paint("red"),
    green: paint("green"),
    yellow: paint("yellow"),
    cyan: paint("cyan"),
  };
}
