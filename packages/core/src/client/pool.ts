// Pool: the client's own connections. Each is opened to the server that takes writes, and states its settings when it opens.

import pg from "pg";
import { clientConfig, type SessionFacts, STANDBY, sessionName } from "../database/connection.js";
import { Servers } from "../database/servers.js";
import { Statements } from "../database/statements.js";
import { TransientError } from "../errors.js";
import type { DatabaseSettings } from "../settings.js";

/** Connections of a pool of our own. A web process calls many at once, and a hundred such processes share one server. */
export const POOL_CONNECTIONS_MAX = 10;
/** How long a call waits for a connection that the client's other calls hold: as long as one of them waits for its answer. */
const PLACE_TIMEOUT_MS = 60_000;

/** Makes the pool; it connects when it is first used. @throws where the address is wrong, or none of several servers takes writes */
export async function openPool(settings: DatabaseSettings): Promise<pg.Pool> {
  const servers = Servers.of(settings);
  const { address, server } = await servers.choose();
  const name = sessionName("client", settings.owner);
  const statements = new Statements(settings.schema);
  // Behind a transaction pooler a session setting would reach somebody else (session.ts, C5).
  const { text } = statements.get(settings.prepare ? "node/state_session" : "node/read_recovery");
  const config = clientConfig(address, server, name);
  const options: pg.PoolConfig & { onConnect(client: pg.ClientBase): Promise<void> } = {
    ...config,
    max: POOL_CONNECTIONS_MAX,
    // A pool has one number for two waits: for the server, which the clients below bound themselves, and for a place.
    connectionTimeoutMillis: PLACE_TIMEOUT_MS,
    // A script that forgets close() still ends.
    allowExitOnIdle: true,
    Client: address.servers.length > 1 ? routedClient(servers, config) : ownClient(config),
    onConnect: async (client) => {
      const { rows } = await client.query<SessionFacts>(text);
      if (rows[0]?.in_recovery === true) throw new TransientError("STANDBY", STANDBY);
    },
  };
  const pool = new pg.Pool(options);
  pool.on("error", () => servers.doubt());
  return pool;
}

type Connected = ((error: Error) => void) | ((error: null, client: pg.Client) => void);

/** A client with a configuration of its own, not with its pool's. */
function ownClient(config: pg.ClientConfig): new () => pg.Client {
  return class extends pg.Client {
    constructor() {
      super(config);
    }
  };
}

/** A client that asks for its server when it connects: a pool keeps one configuration for its whole life. */
function routedClient(servers: Servers, config: pg.ClientConfig): new () => pg.Client {
  return class extends pg.Client {
    constructor() {
      super(config);
    }

    override connect(): Promise<pg.Client>;
    override connect(callback: Connected): void;
    override connect(callback?: Connected): Promise<pg.Client> | undefined {
      const connecting = servers.choose().then(async ({ server: { host, port } }) => {
        // `pg` reads them when it connects; its types have them read-only.
        Object.assign(this, { host, port: port ?? 5432 });
        await super.connect();
        return this;
      });
      if (callback === undefined) return connecting;
      const call = callback as (error: Error | null, client?: pg.Client) => void; // both forms in one
      connecting.then(
        (client) => call(null, client),
        (error: Error) => {
          servers.doubt();
          call(error);
        },
      );
      return undefined;
    }
  };
}
