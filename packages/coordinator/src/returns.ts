// Returns: when to try to come back to a database that was lost. Pure.
// RT1  The first try comes at once, the next ones after growing pauses.
// RT2  A connection that is lost again soon after a return was no return: the pauses go on growing where they were, so
//      that a server which accepts everybody and serves nobody is neither stormed nor fills the log.

const PAUSE_MS_MIN = 50;
const PAUSE_MS_MAX = 2_000;
const SETTLED_AFTER_MS = 10_000;

export class Returns {
  #pauseMs = 0;
  #backAtMs = Number.NEGATIVE_INFINITY;

  /** The connection was lost. */
  lost(nowMs: number): void {
    if (nowMs - this.#backAtMs >= SETTLED_AFTER_MS) this.#pauseMs = 0;
  }

  /** How long to wait before the next try. */
  nextPauseMs(): number {
    const pauseMs = this.#pauseMs;
    this.#pauseMs = Math.min(Math.max(pauseMs * 2, PAUSE_MS_MIN), PAUSE_MS_MAX);
    return pauseMs;
  }

  /** The connection stands. */
  back(nowMs: number): void {
    this.#backAtMs = nowMs;
  }
}
