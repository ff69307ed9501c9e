// Pulse: the few facts that main and coordinator must know of each other without a message.
// Written by main: when the node's heartbeat was last confirmed, and since when without a gap (both monotonic ms).
// Written by the coordinator: its loop counter. Main keeps the heartbeat going only while that counter moves.

export class Pulse {
  readonly buffer: SharedArrayBuffer;
  readonly #times: Float64Array;
  readonly #turns: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(24)) {
    this.buffer = buffer;
    this.#times = new Float64Array(buffer, 0, 2);
    this.#turns = new Int32Array(buffer, 16, 1);
  }

  /** Main: a heartbeat that was sent at `sentAtMs` is confirmed. A gap longer than `gapMs` starts the record anew. */
  confirm(sentAtMs: number, gapMs: number): void {
    if (sentAtMs - (this.#times[0] ?? 0) > gapMs) this.#times[1] = sentAtMs;
    this.#times[0] = sentAtMs;
  }

  /** The heartbeat is lost: whoever was away judges nobody. */
  break(): void {
    this.#times[0] = 0;
  }

  /** For how long the node has heart-beaten without a gap, as of `nowMs`; 0 when its last beat is older than `gapMs`. */
  steadyMs(nowMs: number, gapMs: number): number {
    const last = this.#times[0] ?? 0;
    if (last === 0 || nowMs - last > gapMs) return 0;
    return last - (this.#times[1] ?? last);
  }

  turn(): void {
    Atomics.add(this.#turns, 0, 1);
  }

  turns(): number {
    return Atomics.load(this.#turns, 0);
  }
}
