import { defineConfig } from "gen-durable";

export default defineConfig({
  fsms: ["./fsms/*.ts"],
  queues: { checkout: 20, warehouse: 20 },
});
