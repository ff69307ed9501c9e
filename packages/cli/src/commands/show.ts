// `gen-durable show`: everything about one instance.

import type { Command } from "commander";
import type { InstanceDetails } from "#core/client/view.js";
import { Refusal } from "../exit.js";
import {
  type DatabaseFlags,
  examples,
  newCommand,
  type OutputFlags,
  withDatabase,
  withJson,
} from "../options.js";
import { print, printJson, stdoutColors } from "../output.js";

const NAME_WIDTH = 14;

export function showCommand(): Command {
  return withJson(
    withDatabase(newCommand("show", "show everything about an instance")).argument(
      "<target>",
      "the instance's id, or the correlation key that it occupies",
    ),
  )
    .addHelpText(
      "after",
      `\nExit status 1 when there is no such instance.\n${examples("gen-durable show 1234", "gen-durable show order:42 --json | jq .state")}`,
    )
    .action(async (target: string, flags: DatabaseFlags & OutputFlags) => {
      const { withClient } = await import("../project.js");
      const instance = await withClient(flags, {}, async (client) => {
        if (/^\d+$/.test(target)) return client.get(Number(target));
        const { instances } = await client.list({ correlationKey: target }, { limit: 1 });
        return instances[0] === undefined ? undefined : client.get(instances[0].id);
      });
      if (instance === undefined) throw new Refusal(`there is no instance ${target}`);
      if (flags.json === true) printJson(instance);
      else printInstance(instance);
    });
}

function printInstance(it: InstanceDetails): void {
  const { bold, dim, red, green } = stdoutColors();
  const line = (name: string, value: string | null): void => {
    if (value !== null && value !== "")
      print(`${dim(name.padEnd(NAME_WIDTH))}${value.replaceAll("\n", `\n${" ".repeat(NAME_WIDTH)}`)}`);
  };
  const paint = it.status === "failed" ? red : it.status === "done" ? green : bold;
  line("instance", bold(String(it.id)));
  line("machine", `${it.fsm} version ${it.version}`);
  line("status", paint(it.status) + (it.cancelRequested ? " (is asked to cancel)" : ""));
  line(
    "step",
    `${it.step}, attempt ${it.attempt}, visit ${it.visit}${it.crashes > 0 ? `, crashes ${it.crashes}` : ""}`,
  );
  line("queue", `${it.queue}, priority ${it.priority}`);
  line("due", it.status === "runnable" ? it.eligibleAt.toISOString() : null);
  line(
    "claim",
    it.lockedBy === null ? null : `${it.lockedBy}, leased until ${it.leaseExpiresAt?.toISOString() ?? "?"}`,
  );
  line(
    "key",
    it.correlationKey === null ? null : `${it.correlationKey}, while ${it.correlationScope.join(", ")}`,
  );
  line("concurrency", it.concurrencyKey);
  line("rate limit", it.rateLimit === null ? null : `${it.rateLimit}, weight ${it.weight}`);
  line("waits for", it.status === "awaiting_signal" ? it.awaits.join(", ") : null);
  line("until", it.awaitDeadline?.toISOString() ?? null);
  line("children", it.status === "awaiting_children" ? `${it.childrenPending} have not ended` : null);
  line("parent", it.parentId === null ? null : String(it.parentId));
  line("cancelled", it.cancelReason);
  line("inserted", it.insertedAt.toISOString());
  line("updated", it.updatedAt.toISOString());
  line("state", JSON.stringify(it.state, undefined, 2));
  line("result", it.result === null ? null : JSON.stringify(it.result, undefined, 2));
  line("error", it.error === null ? null : red(it.error));
  for (const signal of it.inbox)
    line(
      "signal",
      `${signal.name} (${signal.id}, ${signal.insertedAt.toISOString()}) ${JSON.stringify(signal.payload)}`,
    );
}
