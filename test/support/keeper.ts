// Keeper: ends what this process has started, if this process ends without doing so itself.
// K1  It is a shell in a session of its own that waits for the end of a pipe; SIGKILL of this process ends the pipe as well.
// K2  It signals only processes whose command line names the folder that they were given, which is nobody else's: an id that
//     the system has used again is left alone.
// K3  One a process, made at the first use. It keeps nothing alive.

import { type ChildProcess, spawn } from "node:child_process";
import type { Socket } from "node:net";

/** Reads "signal pid folder" a line. A pid of 0 is a folder without a process. */
const SCRIPT = `
kept=
while read -r signal pid folder; do kept="$kept $signal:$pid:$folder"; done
for entry in $kept; do
  signal=\${entry%%:*}; rest=\${entry#*:}; pid=\${rest%%:*}; folder=\${rest#*:}
  case "$(ps -o args= -p "$pid" 2> /dev/null)" in
    *"$folder"*) kill -"$signal" "$pid"; while kill -0 "$pid" 2> /dev/null; do sleep 0.1; done ;;
  esac
done
for entry in $kept; do rest=\${entry#*:}; rm -rf "\${rest#*:}"; done
`;

let keeper: ChildProcess | undefined;

/** Sees to it that the process ends, by this signal, and the temporary folder goes, whatever becomes of this process. */
export function keep(folder: string, pid = 0, signal: "KILL" | "QUIT" = "KILL"): void {
  keeper ??= start();
  keeper.stdin?.write(`${signal} ${pid} ${folder}\n`);
}

function start(): ChildProcess {
  const child = spawn("sh", ["-c", SCRIPT], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  child.on("error", () => undefined);
  child.stdin?.on("error", () => undefined);
  child.unref();
  // What spawn calls a stream is a socket where a pipe was asked for.
  (child.stdin as Socket | null)?.unref();
  return child;
}
