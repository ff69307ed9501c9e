// Tell: says to the main thread of the node's process when the first step in this thread begins, or when each does.

const channel = new BroadcastChannel("peers");
channel.unref?.();
let hasBegun = false;

export function tell(n) {
  if (process.env.PEERS_STAMP === "each") channel.postMessage(n);
  else if (!hasBegun) channel.postMessage("begun");
  hasBegun = true;
}
