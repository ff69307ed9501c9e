// Packages: imports of packages stay imports. The output lies in the project's folder, so what resolves from there keeps
// its name; what a module elsewhere sees differently (another workspace, a shared folder) becomes a full path.
// In a folder where nothing is installed (`npx gen-durable init`, then `start`), `gen-durable` and `zod` are those that
// this very process runs; what is installed comes first.

import { isBuiltin } from "node:module";
import { sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { OnResolveResult, Plugin, PluginBuild, ResolveOptions } from "esbuild";

const BARE = /^[^./]/;
const OWN = /^(gen-durable|zod)(\/|$)/;
const TYPESCRIPT = /\.[cm]?tsx?$/;
const WITHIN = Symbol("a resolution that this plugin asked for itself");

/** An esbuild plugin that leaves packages out of the output. TypeScript of a workspace is compiled along. */
export function externalPackages(folder: string): Plugin {
  return {
    name: "gen-durable-packages",
    setup(build) {
      build.onResolve({ filter: BARE }, async ({ path, kind, importer, resolveDir, pluginData }) => {
        if (pluginData === WITHIN || kind === "entry-point" || /^[a-z]:[\\/]/i.test(path)) return undefined;
        if (isBuiltin(path) || path.includes("://") || path.startsWith("data:"))
          return { path, external: true };
        const seen = await resolveFrom(build, path, { kind, importer, resolveDir });
        if (seen === undefined) return { path: ownPackage(path) ?? path, external: true };
        if (TYPESCRIPT.test(seen) && !seen.includes(`${sep}node_modules${sep}`)) return { path: seen };
        const fromProject = await resolveFrom(build, path, { kind, importer: "", resolveDir: folder });
        return { path: fromProject === seen ? path : pathToFileURL(seen).href, external: true };
      });
    },
  };
}

async function resolveFrom(
  build: PluginBuild,
  path: string,
  options: Required<Pick<ResolveOptions, "kind" | "importer" | "resolveDir">>,
): Promise<string | undefined> {
  const result: OnResolveResult & { path: string } = await build.resolve(path, {
    ...options,
    pluginData: WITHIN,
  });
  return (result.errors?.length ?? 0) > 0 || result.path === "" ? undefined : result.path;
}

/** Where this process has the package, as a URL. */
function ownPackage(path: string): string | undefined {
  if (!OWN.test(path)) return undefined;
  try {
    return pathToFileURL(fileURLToPath(import.meta.resolve(path))).href;
  } catch {
    return undefined;
  }
}
