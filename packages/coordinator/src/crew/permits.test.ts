import { describe, expect, test } from "@jest/globals";
import { Ledger } from "#core/ledger.js";
import { Member } from "./member.js";
import { Permits } from "./permits.js";

function crew(threads: number, concurrency: readonly number[]) {
  const ledger = Ledger.create({ threads, queues: concurrency.length, flushers: 1 });
  const members = Array.from({ length: threads }, (_, index) => {
    const member = new Member(index, concurrency.length, ledger);
    open(member);
    return member;
  });
  const permits = new Permits(ledger, concurrency, members);
  const granted = (queue: number): number[] => members.map((member) => member.granted[queue] ?? 0);
  const settle = (queue: number): void => {
    permits.unsettle();
    permits.settle(queue, () => undefined);
  };
  return { ledger, members, permits, granted, settle };
}

function open(member: Member): void {
  member.phase = { name: "open" } as Member["phase"]; // permits look at the name only
}

describe("M1", () => {
  test("permits are spread evenly and add up to the queue's concurrency", () => {
    const { granted, settle, permits } = crew(4, [10, 3]);
    settle(0);
    settle(1);
    expect([...granted(0)].sort()).toEqual([2, 2, 3, 3]);
    expect([...granted(1)].sort()).toEqual([0, 1, 1, 1]);
    expect(permits.free(0)).toBe(10);
  });

  test("under any sequence of taking, blocking, dying and coming back", () => {
    const concurrency = 7;
    const { ledger, members, permits, granted, settle } = crew(3, [concurrency]);
    const inUse = [0, 0, 0];
    let seed = 42;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % below;
    };
    for (let round = 0; round < 500; round++) {
      const index = random(3);
      const member = members[index] as Member;
      switch (random(5)) {
        case 0:
          inUse[index] = (inUse[index] ?? 0) + ledger.takePermits(index, 0, 1 + random(3));
          break;
        case 1:
          if ((inUse[index] ?? 0) > 0) {
            inUse[index] = (inUse[index] ?? 0) - 1;
            ledger.putPermits(index, 0, 1);
          }
          break;
        case 2:
          member.isBlocked = !member.isBlocked;
          break;
        case 3:
          member.reset();
          ledger.resetThread(index);
          inUse[index] = 0;
          break;
        default:
          break;
      }
      settle(0);
      const sum = granted(0).reduce((left, right) => left + right, 0);
      expect(sum).toBeLessThanOrEqual(concurrency);
      expect(permits.inUse(0)).toBe(inUse.reduce((left, right) => left + right, 0));
      // Nothing is kept from the threads that take work.
      if (members.some(({ takesWork }) => takesWork)) expect(sum).toBe(concurrency);
    }
  });
});

test("M2: unused permits of a blocked thread go to the others, those in use when they are put back", () => {
  const { ledger, members, permits, granted, settle } = crew(2, [10]);
  settle(0);
  expect(ledger.takePermits(0, 0, 2)).toBe(2);
  (members[0] as Member).isBlocked = true;
  settle(0);
  expect(granted(0)).toEqual([2, 8]);
  ledger.putPermits(0, 0, 1);
  permits.settle(0, () => undefined);
  expect(granted(0)).toEqual([1, 9]);
  (members[0] as Member).isBlocked = false;
  settle(0);
  expect(granted(0)).toEqual([5, 5]);
});

test("M3: the only permit stays where it is used", () => {
  const { ledger, members, granted, settle } = crew(3, [1]);
  settle(0);
  const first = granted(0).indexOf(1);
  (members[first] as Member).isBlocked = true;
  settle(0);
  const second = granted(0).indexOf(1);
  expect(second).not.toBe(first);
  expect(ledger.takePermits(second, 0, 1)).toBe(1);
  (members[first] as Member).isBlocked = false;
  settle(0);
  ledger.putPermits(second, 0, 1);
  settle(0);
  expect(granted(0).indexOf(1)).toBe(second);
});

test("a quarantined row waits for a permit only until one is put back", () => {
  const { ledger, members, permits, granted, settle } = crew(2, [2]);
  settle(0);
  expect(ledger.takePermits(0, 0, 1) + ledger.takePermits(1, 0, 1)).toBe(2);
  const [apart, other] = members as [Member, Member];
  apart.isSetApart = true;
  expect(permits.grantOne(apart, 0)).toBe(false);
  ledger.putPermits(other.index, 0, 1);
  // It is kept back from the others.
  permits.settle(0, () => undefined);
  expect(permits.grantOne(apart, 0)).toBe(true);
  expect(granted(0)).toEqual([2, 0]);
});
