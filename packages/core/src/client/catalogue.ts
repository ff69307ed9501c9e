// Catalogue: what the nodes have written down about their machines, for callers that have no code of them.

import type { RuntimeFsm } from "../definition/definition.js";
import { UsageError } from "../errors.js";
import { describe, suggest } from "../name.js";
import type { Querier } from "./session.js";

/** A machine of the catalogue as an insert needs it. @throws UsageError UNKNOWN_FSM, naming what is known */
export async function readFsm(
  querier: Querier,
  name: string,
  version: number | undefined,
): Promise<RuntimeFsm> {
  const [found] = await querier.run("client/find_fsm", [
    name,
    version === undefined ? null : String(version),
  ]);
  if (found === undefined) throw await unknownFsm(querier, name, version);
  return {
    name,
    version: Number(found.version),
    queue: found.queue ?? "default",
    initialStep: found.initial_step ?? "",
    steps: new Map(),
    handle: null,
    stateSchema: null,
    resultSchema: null,
    signalSchemas: null,
    parseState: (value) => value,
    onCancel: null,
    inline: false,
  };
}

async function unknownFsm(querier: Querier, name: string, version: number | undefined): Promise<UsageError> {
  const known = await querier.run("client/list_fsms", []);
  const versions = known.find((fsm) => fsm.name === name)?.versions;
  if (version !== undefined && versions !== undefined && versions !== null) {
    return new UsageError(
      "UNKNOWN_FSM",
      `version: no node has registered version ${version} of "${name}" (known: ${versions})`,
      { path: "version", fsm: name, version },
    );
  }
  const names = known.map((fsm) => fsm.name ?? "");
  const list = names.length === 0 ? "no node has started on this database yet" : `known: ${names.join(", ")}`;
  return new UsageError("UNKNOWN_FSM", `no FSM is named ${describe(name)}${suggest(name, names)} (${list})`, {
    path: "fsm",
    fsm: name,
  });
}
