// The service: a node and the shop's HTTP in one process. In production they may as well be apart.
// PORT (8080) is where it listens; CHECKOUT_PAYMENT_TIMEOUT_MS (an hour) how long an order waits for its payment.

import { fileURLToPath } from "node:url";
import { serve } from "@hono/node-server";
import { createClient, startNode } from "gen-durable";
import config from "./gen-durable.config.js";
import { createRoutes } from "./routes.js";

const port = Number(process.env.PORT ?? 8080);
// The configuration's globs are its own folder's; the embedded Postgres is that of the folder where this is started.
const fsms = [fileURLToPath(new URL("./fsms/*.ts", import.meta.url))];

const node = await startNode({ ...config, fsms });
const client = createClient();
const server = serve({ fetch: createRoutes(client).fetch, port, hostname: "127.0.0.1" }, () =>
  console.log(`the shop is open at http://localhost:${port}`),
);

let isClosing = false;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    if (isClosing) process.exit(1);
    isClosing = true;
    server.close();
    void client
      .close()
      .then(() => node.stop())
      .finally(() => process.exit(0));
  });
}
