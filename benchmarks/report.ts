// Report: what every benchmark prints, and the one line of JSON that a program reads.

import { availableParallelism, cpus, totalmem } from "node:os";

export interface Check {
  value: number;
  target: number;
  ok: boolean;
}

export type Direction = "atLeast" | "atMost";

export class Report {
  readonly #checks: Record<string, Check> = {};

  /** The machine, as the head of every result. */
  printMachine(server: string): void {
    const model = cpus()[0]?.model ?? "unknown";
    const memory = Math.round(totalmem() / 2 ** 30);
    console.log(
      `machine: ${availableParallelism()} x ${model}, ${memory} GiB; Node ${process.version}; ${server}`,
    );
  }

  /** A figure without a target. */
  figure(name: string, value: number, unit: string): void {
    const text = Number.isNaN(value) ? "not known on this system" : `${rounded(value)} ${unit}`;
    console.log(`${name}: ${text}`);
  }

  /** A figure with a target. A target that is missed is printed, it is no error. */
  check(name: string, value: number, unit: string, direction: Direction, target: number): void {
    // What this system does not tell is neither met nor missed.
    if (Number.isNaN(value)) {
      this.figure(name, value, unit);
      return;
    }
    const ok = direction === "atLeast" ? value >= target : value <= target;
    this.#checks[name] = { value: rounded(value), target, ok };
    const wanted = `${direction === "atLeast" ? "at least" : "at most"} ${target}`;
    console.log(`${name}: ${rounded(value)} ${unit} (${wanted}: ${ok ? "met" : "missed"})`);
  }

  printJson(): void {
    console.log(JSON.stringify({ checks: this.#checks }));
  }
}

/** Three significant digits below a hundred, whole numbers above. */
function rounded(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}

/** The value that a share of all values does not exceed. @throws for none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const value = sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
  if (value === undefined) throw new Error("no values");
  return value;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}
