// Caller: a program that uses the engine, under faults. A call that fails for reasons that pass is made again until it is
// answered; every answer goes into the ledger, because an answer is a promise.

import { setTimeout as sleep } from "node:timers/promises";
import type {
  CancelAnswer,
  Client,
  FsmDefinition,
  InsertOptions,
  InsertResult,
  RetryResult,
  SignalOrInsertResult,
  SignalResult,
  WaitAnswer,
} from "gen-durable";
import type { Ledger } from "./ledger.js";

const AGAIN_MS = 100;
const WAIT_MS = 5_000;

/** A result that is not what the work should come to. */
export interface Mismatch {
  w: number;
  id: number;
  text: string;
}

export class Caller {
  readonly mismatches: Mismatch[] = [];
  readonly #client: Client;
  readonly #ledger: Ledger;
  /** Aborts when the run gives up waiting. */
  readonly #signal: AbortSignal;
  #sigs = 0;

  constructor(options: { client: Client; ledger: Ledger; signal: AbortSignal; firstSig: number }) {
    this.#client = options.client;
    this.#ledger = options.ledger;
    this.#signal = options.signal;
    this.#sigs = options.firstSig;
  }

  /** Creates instances; answers their ids. A row whose fate stayed unknown may be there twice; its other self is a stray. */
  async insertMany<Input>(
    w: number,
    fsm: FsmDefinition<Input>,
    rows: readonly InsertOptions<Input>[],
  ): Promise<number[]> {
    const { answer, fromMs } = await this.#answered(() => this.#client.insertMany(fsm, rows));
    for (const result of answer) this.#ackInsert(w, result, undefined, fromMs);
    return answer.map(({ id }) => id);
  }

  /** Creates one instance under a correlation key, or hears who has it. */
  async insertKeyed<Input>(
    w: number,
    fsm: FsmDefinition<Input>,
    row: InsertOptions<Input> & { correlationKey: string },
  ): Promise<InsertResult> {
    const { answer, fromMs } = await this.#answered(() => this.#client.insertMany(fsm, [row]));
    const [result] = answer;
    if (result === undefined) throw new Error("an insert without an answer");
    this.#ackInsert(w, result, row.correlationKey, fromMs);
    return result;
  }

  /** A number by which a signal is known. */
  newSig(): number {
    return ++this.#sigs;
  }

  async signal(w: number, id: number, name: string, sig: number, dedupKey?: string): Promise<SignalResult> {
    const { answer, fromMs } = await this.#answered(() =>
      this.#client.signal(id, name, { sig }, dedupKey === undefined ? {} : { dedupKey }),
    );
    if (answer.ok)
      this.#ledger.ack({
        kind: "signalled",
        w,
        id,
        sig,
        fromMs,
        ...(dedupKey === undefined ? {} : { key: dedupKey }),
      });
    return answer;
  }

  async signalOrInsert(
    w: number,
    fsm: FsmDefinition,
    row: InsertOptions & { correlationKey: string },
    name: string,
    sig: number,
    dedupKey: string,
  ): Promise<SignalOrInsertResult> {
    const { answer, fromMs } = await this.#answered(() =>
      this.#client.signalOrInsert(fsm, row, name, { sig }, { dedupKey }),
    );
    if (answer.ok) this.#ledger.ack({ kind: "signalled", w, id: answer.id, sig, key: dedupKey, fromMs });
    return answer;
  }

  async cancel(w: number, id: number, reason: string, force: boolean): Promise<CancelAnswer> {
    const { answer, fromMs } = await this.#answered(() => this.#client.cancel(id, reason, { force }));
    this.#ledger.ack({ kind: "cancelled", w, id, value: { answer, force }, fromMs });
    return answer;
  }

  async retry(w: number, id: number): Promise<RetryResult> {
    const { answer, fromMs } = await this.#answered(() => this.#client.retry(id));
    if (answer.ok) this.#ledger.ack({ kind: "retried", w, id, fromMs });
    return answer;
  }

  /** Waits until the instance has ended; null when the run has given up. */
  async end(w: number, id: number): Promise<WaitAnswer | null> {
    for (;;) {
      const { answer, fromMs } = await this.#answered(() => this.#client.waitFor(id, { timeoutMs: WAIT_MS }));
      if (answer.status === "done" || answer.status === "failed") {
        const value = answer.status === "done" ? { result: answer.result } : { error: answer.error };
        this.#ledger.ack({ kind: "ended", w, id, value: { status: answer.status, ...value }, fromMs });
        return answer;
      }
      if (answer.status === "not_found") {
        this.#mismatch({ w, id, text: "an instance whose insert was acknowledged is not found" });
        return null;
      }
      if (this.#signal.aborted) return null;
    }
  }

  /** Waits for the end, and notes when it is not the expected one. Returns the result of a done one. */
  async expect(
    w: number,
    id: number,
    expected: (answer: { status: string; result?: unknown; error?: string | null }) => boolean,
  ): Promise<void> {
    const answer = await this.end(w, id);
    if (answer === null || expected(answer)) return;
    this.#mismatch({ w, id, text: `its end is not what its steps make: ${JSON.stringify(answer)}` });
  }

  async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#signal }).catch(() => undefined);
  }

  get isOver(): boolean {
    return this.#signal.aborted;
  }

  #mismatch(mismatch: Mismatch): void {
    this.mismatches.push(mismatch);
  }

  #ackInsert(w: number, result: InsertResult, key: string | undefined, fromMs: number): void {
    this.#ledger.ack({
      kind: result.ok ? "inserted" : "duplicate",
      w,
      id: result.id,
      fromMs,
      ...(key === undefined ? {} : { key }),
    });
  }

  async #answered<T>(call: () => Promise<T>): Promise<{ answer: T; fromMs: number }> {
    for (;;) {
      const fromMs = Date.now();
      try {
        return { answer: await call(), fromMs };
      } catch (error) {
        if (isUsage(error) || this.#signal.aborted) throw error;
        await sleep(AGAIN_MS);
      }
    }
  }
}

/** A mistake of the harness itself. */
function isUsage(error: unknown): boolean {
  return (error as { kind?: unknown }).kind === "usage";
}
