// Account: the operating system's user that the embedded Postgres runs as. Postgres refuses to run as root, so a root
// process gives it another one; everybody else runs it as themselves.

import { readFileSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

export interface Account {
  name: string;
  uid: number;
  gid: number;
}

/**
 * The account to run the server as, or undefined: the one this process has. A folder that belongs to somebody who is not
 * root decides; then `postgres`, then `nobody`.
 */
export function serverAccount(owned: readonly string[]): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readAccounts();
  for (const path of owned) {
    const uid = statOf(path)?.uid ?? 0;
    if (uid !== 0)
      return accounts.find((account) => account.uid === uid) ?? { name: `uid ${uid}`, uid, gid: uid };
  }
  return ["postgres", "nobody"]
    .map((name) => accounts.find((account) => account.name === name && account.uid !== 0))
    .find((account) => account !== undefined);
}

/** The outermost folder on the way to `path` that `account` cannot enter, or undefined. Reads modes, not access lists. */
export function blockedFolder(account: Account, path: string): string | undefined {
  const folders: string[] = [];
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    folders.unshift(folder);
    if (dirname(folder) === folder) break;
  }
  return folders.find((folder) => {
    const stats = statOf(folder);
    return stats?.isDirectory() === true && !canEnter(account, stats);
  });
}

function canEnter(account: Account, stats: Stats): boolean {
  if (stats.uid === account.uid) return (stats.mode & 0o100) !== 0;
  if (stats.gid === account.gid) return (stats.mode & 0o010) !== 0;
  return (stats.mode & 0o001) !== 0;
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}

/** Every account of /etc/passwd; none where there is no such file. */
function readAccounts(): Account[] {
  let text: string;
  try {
    text = readFileSync("/etc/passwd", "utf8");
  } catch {
    return [];
  }
  return text.split("\n").flatMap((line) => {
    const [name, , uid, gid] = line.split(":");
    if (name === undefined || uid === undefined || gid === undefined) return [];
    return [{ name, uid: Number(uid), gid: Number(gid) }];
  });
}
