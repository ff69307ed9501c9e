// Plan: what a prepared statement has read, from EXPLAIN (ANALYZE, BUFFERS).

import type pg from "pg";

interface PlanNode {
  "Node Type": string;
  "Relation Name"?: string;
  "Index Name"?: string;
  "Actual Rows"?: number;
  "Actual Loops"?: number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  "Rows Removed by Index Recheck"?: number;
  "Shared Hit Blocks"?: number;
  "Shared Read Blocks"?: number;
  Plans?: PlanNode[];
}

export interface Reading {
  /** Rows that scans of tables have met, those that a filter dropped included; and pairs that a join has compared in vain. */
  rows: number;
  /** Pages, read or found in memory. */
  pages: number;
  /** Tables that were read from their first page to their last. */
  scanned: string[];
  /** The scans, for the message of a failure. */
  scans: string[];
}

/** Runs a prepared statement in a transaction that is rolled back. */
export async function readPlan(session: pg.Client, execute: string): Promise<Reading> {
  await session.query("BEGIN");
  try {
    const { rows } = await session.query(`EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ${execute}`);
    const [{ Plan: plan }] = rows[0]["QUERY PLAN"] as [{ Plan: PlanNode }];
    return summarize(plan);
  } finally {
    await session.query("ROLLBACK");
  }
}

function summarize(plan: PlanNode): Reading {
  const nodes = nodesOf(plan);
  const reads = nodes.filter(
    (node) => /Scan$/.test(node["Node Type"]) && node["Relation Name"] !== undefined,
  );
  const met = (node: PlanNode): number =>
    ((node["Actual Rows"] ?? 0) +
      (node["Rows Removed by Filter"] ?? 0) +
      (node["Rows Removed by Index Recheck"] ?? 0)) *
    (node["Actual Loops"] ?? 1);
  const compared = (node: PlanNode): number =>
    (node["Rows Removed by Join Filter"] ?? 0) * (node["Actual Loops"] ?? 1);
  return {
    rows: Math.round(
      reads.reduce((sum, node) => sum + met(node), 0) + nodes.reduce((sum, node) => sum + compared(node), 0),
    ),
    pages: (plan["Shared Hit Blocks"] ?? 0) + (plan["Shared Read Blocks"] ?? 0),
    scanned: reads
      .filter((node) => node["Node Type"] === "Seq Scan")
      .map((node) => node["Relation Name"] ?? ""),
    scans: reads.map(
      (node) =>
        `${node["Node Type"]} of ${node["Index Name"] ?? node["Relation Name"]}: ${Math.round(met(node))} rows`,
    ),
  };
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}
