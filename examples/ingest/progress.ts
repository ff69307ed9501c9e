// Progress: a bar that is redrawn on a terminal, a line now and then elsewhere.

const BAR_WIDTH = 30;
const REDRAW_EVERY_MS = 80;
const LINE_EVERY_MS = 1_000;

export class Progress {
  readonly #total: number;
  readonly #stream: NodeJS.WriteStream;
  readonly #startMs = performance.now();
  #lastMs = 0;

  constructor(total: number, stream: NodeJS.WriteStream = process.stderr) {
    this.#total = total;
    this.#stream = stream;
  }

  /** Shows how far it is, as often as makes sense. */
  update(ended: number, failed: number): void {
    const nowMs = performance.now();
    const everyMs = this.#stream.isTTY ? REDRAW_EVERY_MS : LINE_EVERY_MS;
    if (ended < this.#total && nowMs - this.#lastMs < everyMs) return;
    this.#lastMs = nowMs;
    const line = this.#describe(ended, failed, nowMs);
    if (!this.#stream.isTTY) {
      this.#stream.write(`${line}\n`);
      return;
    }
    const filled = this.#total === 0 ? BAR_WIDTH : Math.round((ended / this.#total) * BAR_WIDTH);
    const bar = `${"█".repeat(filled)}${"░".repeat(BAR_WIDTH - filled)}`;
    // Back to the line's start, and clear what a longer line left behind.
    this.#stream.write(`\r${bar} ${line}\x1b[K${ended >= this.#total ? "\n" : ""}`);
  }

  #describe(ended: number, failed: number, nowMs: number): string {
    const percent = this.#total === 0 ? 100 : Math.floor((ended / this.#total) * 100);
    const failures = failed === 0 ? "" : `, ${failed} failed`;
    return `${ended}/${this.#total} files (${percent}%)${failures}, ${((nowMs - this.#startMs) / 1000).toFixed(1)} s`;
  }
}
