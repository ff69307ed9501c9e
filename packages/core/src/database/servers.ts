// Servers: which of several servers takes writes. One object a thread and address; a URL with one server needs no asking.
// SV1  A standby is never used, wherever it stands in the list.
// SV2  Of several that take writes the one with the newest timeline is used: an old primary that came back beside the one
//      that was promoted is not written to. Of equals the first in the list.
// SV3  Nor is it when it stands alone: no server is used whose timeline is older than one that was seen before.
// SV4  Who loses a connection says so (`doubt`). Until then nobody else is asked, and whoever asks meanwhile shares the answer.

import pg from "pg";
import { TransientError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";
import { type Address, parseAddress, type ServerAddress, serverConfig } from "./address.js";
import { type Statement, Statements } from "./statements.js";

/** With several servers, one that is silent must not keep the others waiting for long. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Once one is known to take writes, the others have so long to show a newer timeline. */
const OTHERS_MS = 1_000;

interface Seen {
  server: ServerAddress;
  /** Null where the role may not ask. */
  system: string | null;
  timeline: number | null;
}

type Answer = Seen | { server: ServerAddress; refusal: string };

const known = new Map<string, Servers>();

export class Servers {
  readonly #settings: DatabaseSettings;
  readonly #statements: { full: Statement; plain: Statement };
  #chosen: Seen | undefined;
  #isDoubted = false;
  #electing: Promise<Seen> | undefined;

  private constructor(settings: DatabaseSettings) {
    this.#settings = settings;
    const statements = new Statements(settings.schema);
    this.#statements = {
      full: statements.get("node/read_server"),
      plain: statements.get("node/read_recovery"),
    };
  }

  /** The servers of this address, as this thread knows them. */
  static of(settings: DatabaseSettings): Servers {
    const key = JSON.stringify([settings.url, process.env.PGHOST, process.env.PGPORT]);
    let servers = known.get(key);
    if (servers === undefined) {
      servers = new Servers(settings);
      known.set(key, servers);
    }
    return servers;
  }

  /** The server to connect to. @throws TransientError NO_PRIMARY when none of several takes writes; UsageError */
  async choose(): Promise<{ address: Address; server: ServerAddress }> {
    const address = parseAddress(this.#settings);
    const [only, ...others] = address.servers;
    if (only !== undefined && others.length === 0) return { address, server: only };
    if (this.#chosen === undefined || this.#isDoubted) {
      this.#electing ??= this.#elect(address).finally(() => {
        this.#electing = undefined;
      });
      this.#chosen = await this.#electing;
      this.#isDoubted = false;
    }
    return { address, server: this.#chosen.server };
  }

  /** SV4. */
  doubt(): void {
    this.#isDoubted = true;
  }

  async #elect(address: Address): Promise<Seen> {
    const answers: Answer[] = [];
    let hasWriter: () => void = () => undefined;
    const writer = new Promise<void>((resolve) => {
      hasWriter = resolve;
    });
    const asked = address.servers.map(async (server) => {
      const answer = await this.#ask(address, server);
      answers.push(answer);
      if (!("refusal" in answer)) hasWriter();
    });
    const abort = new AbortController();
    await Promise.race([
      Promise.all(asked),
      writer.then(
        () =>
          new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, OTHERS_MS);
            abort.signal.addEventListener("abort", () => clearTimeout(timer));
          }),
      ),
    ]);
    abort.abort();
    const ordered = address.servers.flatMap((server) => answers.filter((answer) => answer.server === server));
    const best = newest(ordered.filter(takesWrites));
    if (best !== undefined && !isOlder(best, this.#chosen)) return best;
    const refusals = address.servers.map((server) => {
      const answer = answers.find((one) => one.server === server);
      return `${server.name}: ${answer === undefined ? "no answer" : this.#refusalOf(answer)}`;
    });
    throw new TransientError("NO_PRIMARY", `none of the servers takes writes: ${refusals.join("; ")}`);
  }

  #refusalOf(answer: Answer): string {
    if ("refusal" in answer) return answer.refusal;
    return `an old primary (timeline ${answer.timeline}; ${this.#chosen?.timeline} was seen on ${this.#chosen?.server.name})`;
  }

  async #ask(address: Address, server: ServerAddress): Promise<Answer> {
    const client = new pg.Client({
      ...serverConfig(address, server),
      application_name: "gen-durable servers",
      connectionTimeoutMillis: address.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
    });
    client.on("error", () => undefined);
    try {
      await client.connect();
      const facts = await this.#factsOf(client);
      if (facts.in_recovery) return { server, refusal: "a standby (in recovery)" };
      return { server, system: facts.system, timeline: facts.timeline };
    } catch (error) {
      return {
        server,
        refusal: (error as Error).message || String((error as { code?: unknown }).code ?? error),
      };
    } finally {
      // A silent server does not answer a farewell either.
      client.end().catch(() => undefined);
    }
  }

  async #factsOf(
    client: pg.Client,
  ): Promise<{ in_recovery: boolean; system: string | null; timeline: number | null }> {
    const { full, plain } = this.#statements;
    try {
      const { rows } = await client.query<{ in_recovery: boolean; system: string; timeline: number }>(
        full.text,
      );
      const [facts] = rows;
      if (facts !== undefined) return facts;
    } catch (error) {
      // Some providers keep these functions from everybody.
      if (typeof (error as { code?: unknown }).code !== "string") throw error;
    }
    const { rows } = await client.query<{ in_recovery: boolean }>(plain.text);
    return { in_recovery: rows[0]?.in_recovery ?? false, system: null, timeline: null };
  }
}

function takesWrites(answer: Answer): answer is Seen {
  return !("refusal" in answer);
}

/** SV2: timelines are compared among copies of one cluster only. */
function newest(writers: readonly Seen[]): Seen | undefined {
  const [first, ...others] = writers;
  return others.reduce<Seen | undefined>(
    (best, other) => (best !== undefined && isOlder(best, other) ? other : best),
    first,
  );
}

function isOlder(one: Seen, other: Seen | undefined): boolean {
  if (other === undefined || one.system === null || one.system !== other.system) return false;
  return (one.timeline ?? 0) < (other.timeline ?? 0);
}
