// Stops the run's Postgres by closing its stdin, and waits until it is gone.
export default async function teardown() {
  const child = globalThis.genDurableTestServer;
  if (child === undefined || child.exitCode !== null) return;
  child.ref();
  const exit = new Promise((resolve) => child.once("exit", resolve));
  child.stdin.end();
  await exit;
}
