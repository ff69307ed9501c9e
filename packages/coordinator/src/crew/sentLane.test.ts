import { expect, test } from "@jest/globals";
import { Ledger } from "#core/ledger.js";
import type { ClaimedRow } from "#core/protocol/row.js";
import { type HeldRow, HeldTable } from "../held.js";
import { SentLane } from "./sentLane.js";

function lane(count: number) {
  const ledger = Ledger.create({ threads: 1, queues: 1, flushers: 1 });
  const held = new HeldTable(ledger);
  const sent = new SentLane(ledger);
  const rows: HeldRow[] = [];
  for (let id = 0; id < count; id++) {
    const row = held.hold({ id, crashes: 0 } as ClaimedRow, {
      queueIndex: 0,
      claimedAtMs: 0,
      trustedUntilMs: 1,
    });
    row.dispatchedAtMs = id;
    rows.push(row);
    sent.push(row);
  }
  const begin = (index: number): boolean => {
    const { seat, generation } = (rows[index] as HeldRow).row;
    return ledger.begin(seat, generation, 1);
  };
  return { ledger, held, sent, rows, begin };
}

test("L1: the rows that have not begun are counted without a message", () => {
  const { sent, begin } = lane(3_000);
  expect(sent.unstarted).toBe(3_000);
  for (let index = 0; index < 2_000; index++) begin(index);
  expect(sent.unstarted).toBe(1_000);
  expect(sent.waitsSinceMs).toBe(2_000);
});

test("recall takes those that wait longest, and never one that has begun", () => {
  const { sent, rows, begin, ledger } = lane(5);
  begin(0);
  begin(1);
  expect(sent.recall(2)).toEqual([rows[2], rows[3]]);
  expect(begin(2)).toBe(false);
  expect(sent.unstarted).toBe(1);
  expect(ledger.mark((rows[2] as HeldRow).row.seat)).toBe("free");
});

test("a row that was taken back and sent again counts once, in its new lane", () => {
  const { sent, rows, held } = lane(2);
  const [row] = sent.recall(1);
  held.reseat(row as HeldRow);
  expect(sent.unstarted).toBe(1);
  sent.push(row as HeldRow);
  expect(sent.unstarted).toBe(2);
  expect(sent.recall(9)).toEqual([rows[1], row]);
});
