// Sessions: opens a session for each member and hears of its start and its end.
//
// N1  A member has at most one thread. The next one is started only after the last one is known to be gone.
// N2  Every thread runs the definitions of the first one: another digest is refused, or rows of one machine would run
//     different code depending on where they land.
// N3  A flusher gets a session's port before the session gets a row.

import { MessageChannel } from "node:worker_threads";
import { monotonicMs } from "#core/clock.js";
import type { CatalogueEntry, FromExecutor, SessionTask, WireError } from "#core/protocol/executor.js";
import { ExecutorPool } from "#executor/pool.js";
import { CLOSE_MS_MAX, START_MS_MAX } from "./bounds.js";
import type { CrewOptions } from "./events.js";
import type { Member, OpenThread } from "./member.js";
import { countDeath } from "./respawn.js";

export interface SessionListener {
  /** The thread has loaded its definitions and takes rows. */
  opened(member: Member, catalogue: readonly CatalogueEntry[]): void;
  /** The definitions cannot be loaded, and never could be. */
  refused(error: WireError): void;
  message(member: Member, message: FromExecutor): void;
  /** The thread is gone; the member still says what it had. `session` is undefined when no flusher ever heard of it. */
  gone(member: Member, end: { session: number | undefined; reason: string; wasWanted: boolean }): void;
}

export class Sessions {
  readonly #options: CrewOptions;
  readonly #members: readonly Member[];
  readonly #listener: SessionListener;
  readonly #pool: ExecutorPool;
  readonly #respawns = new Map<Member, NodeJS.Timeout>();
  readonly #closed = new Map<Member, Promise<unknown>>();
  #sessionCount = 0;
  #digest: string | undefined;
  /** No thread is started any more. */
  #isOver = false;

  constructor(options: CrewOptions, members: readonly Member[], listener: SessionListener) {
    this.#options = options;
    this.#members = members;
    this.#listener = listener;
    this.#pool = new ExecutorPool({
      threads: Math.max(members.length, 1),
      heapMb: options.settings.workerHeapMb,
    });
  }

  /** Starts a thread for a member that has none. */
  open(member: Member): void {
    const { settings, ledger, queues, flusherOfQueue, logPort } = this.#options;
    const session = ++this.#sessionCount;
    const control = new MessageChannel();
    const logs = new MessageChannel();
    const flusherPorts = Array.from({ length: ledger.memory.flushers }, () => new MessageChannel());
    const task: SessionTask = {
      thread: member.index,
      session,
      modules: settings.modules,
      ledger: ledger.memory,
      queues,
      flusherOfQueue,
      control: control.port2,
      flusherPorts: flusherPorts.map(({ port2 }) => port2),
      logPort: logs.port2,
      maxPayloadBytes: settings.maxPayloadBytes,
      crashLimit: settings.crashLimit,
      rateBursts: Object.fromEntries(
        Object.entries(settings.rateLimits).map(([name, { burst }]) => [name, burst]),
      ),
      gateNames: Object.keys(settings.concurrencyLimits),
      inlineMaxMs: settings.inlineMaxMs,
    };
    logPort.postMessage(logs.port1, [logs.port1]);
    const thread = this.#pool.openSession(task, [control.port2, logs.port2, ...task.flusherPorts]);
    const open: OpenThread = {
      session,
      control: control.port1,
      thread,
      startedAtMs: monotonicMs(),
      isAttached: false,
    };
    member.phase = { name: "starting", flusherPorts: flusherPorts.map(({ port1 }) => port1), ...open };
    control.port1.on("message", (message: FromExecutor) => this.#receive(member, session, message));
    const late = setTimeout(() => this.#end(member, session, "late"), START_MS_MAX);
    late.unref();
    const gone = thread.closed.then(({ reason }) => {
      clearTimeout(late);
      this.#gone(member, open, reason);
    });
    this.#closed.set(member, gone);
  }

  /** Ends the member's thread because of its overdue steps. */
  endOverdue(member: Member): void {
    if (member.phase.name !== "resting") this.#end(member, member.phase.session, "overdue");
  }

  /** Lets every thread post what it has, then ends it. Resolves when all are gone. */
  async close(): Promise<void> {
    this.#isOver = true;
    for (const timer of this.#respawns.values()) clearTimeout(timer);
    for (const member of this.#members) member.control?.postMessage({ type: "close" });
    const late = setTimeout(() => {
      for (const member of this.#members) {
        if (member.phase.name !== "resting") this.#end(member, member.phase.session, "closing");
      }
    }, CLOSE_MS_MAX);
    await Promise.all(this.#closed.values());
    clearTimeout(late);
    await this.#pool.close();
  }

  #receive(member: Member, session: number, message: FromExecutor): void {
    if (member.phase.name === "resting" || member.phase.session !== session) return;
    switch (message.type) {
      case "ready":
        this.#ready(member, message);
        return;
      case "refused":
        this.#refused(member, message.error);
        return;
      default:
        this.#listener.message(member, message);
    }
  }

  #ready(member: Member, { catalogue, digest }: FromExecutor & { type: "ready" }): void {
    if (member.phase.name !== "starting") return;
    this.#digest ??= digest;
    if (digest !== this.#digest) {
      const message =
        "an executor thread loaded other definitions than the first one; restart the node to run them";
      this.#options.events.log("error", message, { thread: member.index });
      this.#end(member, member.phase.session, "refused");
      return;
    }
    const { flusherPorts, ...open } = member.phase;
    this.#options.events.attach(member.index, open.session, flusherPorts); // N3
    member.phase = { ...open, name: "open", isAttached: true };
    member.tickedAtMs = monotonicMs();
    this.#listener.opened(member, catalogue);
  }

  #refused(member: Member, error: WireError): void {
    if (member.phase.name !== "starting") return;
    this.#end(member, member.phase.session, "refused");
    if (this.#digest === undefined) {
      this.#isOver = true;
      this.#listener.refused(error);
    } else
      this.#options.events.log(
        "error",
        "an executor thread cannot load its definitions any more; restart the node",
        {
          thread: member.index,
          err: error,
        },
      );
  }

  #end(member: Member, session: number, why: "overdue" | "closing" | "refused" | "late"): void {
    const { phase } = member;
    if (phase.name === "resting" || phase.session !== session) return;
    if (why === "late" && phase.name !== "starting") return;
    if (phase.name === "starting") for (const port of phase.flusherPorts) port.close();
    const { control, thread, startedAtMs, isAttached } = phase;
    if (phase.name !== "ending")
      member.phase = { name: "ending", why, session, control, thread, startedAtMs, isAttached };
    if (why === "late")
      this.#options.events.log("error", "an executor thread has not loaded its definitions in time", {
        thread: member.index,
        afterMs: START_MS_MAX,
      });
    thread.terminate();
  }

  /** N1. */
  #gone(member: Member, open: OpenThread, reason: string): void {
    const { phase } = member;
    const wasAttached = phase.name !== "resting" && phase.isAttached;
    if (phase.name === "starting") for (const port of phase.flusherPorts) port.close();
    open.control.close();
    this.#listener.gone(member, {
      session: wasAttached ? open.session : undefined,
      reason,
      wasWanted: phase.name === "ending" || this.#isOver,
    });
    member.phase = { name: "resting" };
    if (this.#isOver) return;
    const delayMs = countDeath(member, { startedAtMs: open.startedAtMs, nowMs: monotonicMs() });
    this.#respawns.set(
      member,
      setTimeout(() => {
        this.#respawns.delete(member);
        this.open(member);
      }, delayMs),
    );
  }
}
