// The configuration is typed: a misspelt key and a value of the wrong kind do not compile.

import { defineConfig } from "gen-durable";

export default defineConfig({
  fsms: ["./fsms/*.ts"],
  database: { url: process.env.MY_DATABASE_URL },
  queues: { default: 10, checkout: 50 },
  rateLimits: { stripe: { allowed: 100, period: "1 minute" } },
  concurrencyLimits: { stripe: { limit: 100, shards: 10 } },
});

defineConfig({
  workers: 4,
  flushers: [{ queues: ["a"], maxBatch: 10 }, { queues: "all" }],
  reaper: false,
  gc: { retentionMs: 5 },
  prefetch: "auto",
  poke: "none",
  wait: { tickMs: 5 },
  insertBatcher: false,
});

// @ts-expect-error a misspelt key
defineConfig({ queus: { default: 10 } });
// @ts-expect-error a misspelt key inside
defineConfig({ gc: { retention: 5 } });
// @ts-expect-error an unknown poke transport
defineConfig({ poke: "redis" });
// @ts-expect-error a number is wanted
defineConfig({ queues: { default: "10" } });
// @ts-expect-error the waiter cannot be switched off
defineConfig({ wait: false });
// @ts-expect-error a flusher serves queues
defineConfig({ flushers: [{ maxBatch: 5 }] });
