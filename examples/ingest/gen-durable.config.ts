import { defineConfig } from "gen-durable";

export default defineConfig({
  fsms: ["./fsms/*.ts"],
  queues: { ingest: 50 },
});
