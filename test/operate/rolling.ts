// Rolling: a cluster of four nodes of different roles, a load with callers that wait, and a deploy that replaces one node
// after the other.

import { createClient } from "gen-durable";
import type { TestDatabase } from "../support/database.js";
import { type NodeProcess, startNode } from "../support/node.js";
import { until } from "../support/until.js";
import { order as orderV1 } from "./fixtures/orders.v1.js";
import { order as orderV2 } from "./fixtures/orders.v2.js";

const V1 = "test/operate/fixtures/orders.v1.ts";
const V2 = "test/operate/fixtures/orders.v2.ts";

/** Every queue is served by two of them, so that one may be away. */
const ROLES: Readonly<Record<string, Record<string, unknown>>> = {
  orders: { queues: { default: 10 }, reaper: false, gc: false },
  parcels: { queues: { parcels: 5 }, gc: false },
  both: { queues: { default: 5, parcels: 5 }, reaper: false },
  keeper: { queues: {} },
};

export interface Rollout {
  /** What each caller's one `waitFor` answered. */
  answers: { n: number; status: string; result: unknown; tookMs: number }[];
  exits: (number | null)[];
  /** Lines of warning or worse that a node has logged. */
  complaints: string[];
}

/** Runs callers at `perSecond` while each node is replaced, for `rounds` rounds. The cluster is left as it is then. */
export async function rollOut(
  database: TestDatabase,
  { rounds, perSecond }: { rounds: number; perSecond: number },
): Promise<Rollout> {
  const nodes = new Map<string, NodeProcess>();
  const rollout: Rollout = { answers: [], exits: [], complaints: [] };
  const start = (role: string, fsms: readonly string[]) =>
    startNode({
      database,
      fsms,
      workers: 1,
      exactConfig: { ...ROLES[role], instance: role, concurrencyLimits: { courier: { limit: 5 } } },
    });
  await Promise.all(Object.keys(ROLES).map(async (role) => nodes.set(role, await start(role, [V1]))));

  const client = createClient({ url: database.url });
  const callers: Promise<unknown>[] = [];
  let waiting = 0;
  let newest: 1 | 2 = 1;
  const call = async (n: number): Promise<void> => {
    const beganAtMs = performance.now();
    waiting++;
    const correlationKey = `order:${n}`;
    const fsm = newest === 1 || n % 2 === 0 ? orderV1 : orderV2;
    const { id } = await client.insert(fsm, { state: { n }, correlationKey });
    const paid = client.signal(correlationKey, "paid", { n });
    const answer = await client.waitFor(id, { timeoutMs: 60_000 });
    const { status } = answer;
    const result = "result" in answer ? answer.result : undefined;
    rollout.answers.push({ n, status, result, tookMs: performance.now() - beganAtMs });
    await paid;
    waiting--;
  };
  // A machine that is busy with others gets fewer callers, not a backlog.
  const load = setInterval(() => {
    if (waiting < perSecond) callers.push(call(callers.length));
  }, 1_000 / perSecond);
  try {
    for (let round = 0; round < rounds; round++) {
      for (const role of Object.keys(ROLES)) {
        const old = nodes.get(role);
        if (old === undefined) throw new Error(`no node ${role}`);
        const { code } = await old.stop();
        rollout.exits.push(code);
        rollout.complaints.push(...complaintsOf(old));
        nodes.set(role, await start(role, [V1, V2]));
        newest = 2;
      }
    }
    const seen = callers.length;
    await until(() => callers.length >= seen + perSecond / 2, {
      describe: "some callers come after the deploy",
    });
  } finally {
    clearInterval(load);
  }
  await Promise.all(callers);
  await client.close();
  rollout.complaints.push(...[...nodes.values()].flatMap(complaintsOf));
  return rollout;
}

const WARN = 40;

function complaintsOf(node: NodeProcess): string[] {
  return node.log.filter(({ level }) => level >= WARN).map(({ msg }) => msg);
}
