// The public exports of `gen-durable`.

export type { CallOptions, NamedInsertOptions } from "#core/client/call.js";
export type { CancelOptions, Client, SignalOptions } from "#core/client/client.js";
export type { CancelAnswer, RetryResult } from "#core/client/control.js";
export type { InsertResult } from "#core/client/insert.js";
export type { InsertBatcher, InsertFlush } from "#core/client/insertBuffer.js";
export type { ClientOptions } from "#core/client/options.js";
export type { PgPool, Tx } from "#core/client/session.js";
export type { SignalRequest, SignalResult, SignalTarget } from "#core/client/signal.js";
export type { SignalOrInsertResult } from "#core/client/signalOrInsert.js";
export type {
  InstanceDetails,
  InstancePage,
  InstanceSummary,
  ListFilter,
  ListPage,
} from "#core/client/view.js";
export type { WaitAnswer, WaitOptions } from "#core/client/waitAnswer.js";
export { defineConfig, type GenDurableConfig } from "#core/config/config.js";
export { type Child, childOf } from "#core/definition/child.js";
export type { FsmDefinition, InputOfFsm, ResultOfFsm, SignalsOfFsm } from "#core/definition/definition.js";
export {
  defineFsm,
  type FsmOptions,
  type MaybePromise,
  type SignalSchemas,
  type StepFunction,
  type StepOptions,
} from "#core/definition/fsm.js";
export type { InsertOptions } from "#core/definition/insertOptions.js";
export { defineJob, type JobContext, type JobOptions } from "#core/definition/job.js";
export type { Outcome } from "#core/definition/outcome.js";
export type {
  AwaitOptions,
  ChildView,
  NextOptions,
  RunContext,
  SignalOf,
  SignalTypes,
  StepContext,
  StepLog,
} from "#core/definition/stepContext.js";
export type { JsonObject, JsonValue, Storable } from "#core/definition/storable.js";
export {
  GenDurableError,
  InvariantError,
  StepAbortedError,
  type StepAbortion,
  StepCrashedError,
  StepTimeoutError,
  StoredStateError,
  TransientError,
  UnknownStepError,
  UsageError,
} from "#core/errors.js";
export type { Status, WakeReason } from "#core/instance.js";
export type { Key } from "#core/key.js";
export type { Schedule } from "#core/schedule.js";
export { createClient } from "./client.js";
export type { LogLevel, NodeLog } from "./node/log.js";
export type { NodeEnd, RunningNode } from "./node/run.js";
export { type StartOptions, startNode } from "./startNode.js";
