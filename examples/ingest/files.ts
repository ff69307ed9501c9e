// Files: which ones are ingested.

import { createHash } from "node:crypto";
import { opendirSync, type Stats, statSync } from "node:fs";
import { extname, join, relative } from "node:path";

export interface FoundFile {
  /** Absolute. */
  path: string;
  size: number;
  modifiedMs: number;
}

const EXTENSIONS = new Set([
  ".md",
  ".txt",
  ".ts",
  ".js",
  ".mjs",
  ".cjs",
  ".sql",
  ".html",
  ".css",
  ".py",
  ".c",
  ".h",
]);
const SKIPPED = new Set([".git", ".gen-durable", ".cache", "dist", "coverage"]);
/** A text travels in the instance's state through two steps; what is larger than this is not prose. */
const FILE_BYTES_MAX = 64 * 1024;

/** The first `limit` text files under a folder: what is near first, dependencies (`node_modules`) last. Always in one order. */
export function findFiles(folder: string, limit: number): FoundFile[] {
  const found: FoundFile[] = [];
  const near: string[] = [folder];
  const far: string[] = [];
  for (let next = near.shift() ?? far.shift(); next !== undefined; next = near.shift() ?? far.shift()) {
    for (const { name, isFolder } of listFolder(next)) {
      const path = join(next, name);
      if (isFolder) {
        if (!SKIPPED.has(name)) (path.includes("node_modules") ? far : near).push(path);
        continue;
      }
      if (!EXTENSIONS.has(extname(name))) continue;
      const stats = statOf(path);
      if (stats === undefined || stats.size === 0 || stats.size > FILE_BYTES_MAX) continue;
      found.push({ path, size: stats.size, modifiedMs: Math.trunc(stats.mtimeMs) });
      if (found.length === limit) return found;
    }
  }
  return found;
}

/** One file in one version, as a correlation key: the same file is not ingested twice until it changes. */
export function keyOf(file: FoundFile): string {
  const digest = createHash("sha256").update(JSON.stringify([file.path, file.size, file.modifiedMs]));
  return `file:${digest.digest("hex").slice(0, 32)}`;
}

/** How a path is shown. */
export function shownPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}

function listFolder(folder: string): { name: string; isFolder: boolean }[] {
  const entries: { name: string; isFolder: boolean }[] = [];
  const directory = opendirSync(folder);
  try {
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      // Symbolic links are not followed: workspaces link to each other.
      if (entry.isDirectory() || entry.isFile())
        entries.push({ name: entry.name, isFolder: entry.isDirectory() });
    }
  } finally {
    directory.closeSync();
  }
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function statOf(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}
