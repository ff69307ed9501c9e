// Packages: in a folder where nothing is installed (`npx gen-durable init`, then `start`), `gen-durable` and `zod` are
// those that this very process runs. What the project has installed itself always comes first.

import { createRequire } from "node:module";
import { join } from "node:path";
import type { Plugin } from "esbuild";

const OWN = /^(gen-durable|zod)(\/|$)/;

/** An esbuild plugin that gives imports of our own packages a place where the project has none. */
export function ownPackages(folder: string): Plugin {
  const project = createRequire(join(folder, "package.json"));
  return {
    name: "gen-durable-packages",
    setup(build) {
      build.onResolve({ filter: OWN }, ({ path }) => {
        if (isInstalled(project, path)) return { path, external: true };
        try {
          return { path: import.meta.resolve(path), external: true };
        } catch {
          // Not ours either: the import fails with its own name when it is reached.
          return { path, external: true };
        }
      });
    },
  };
}

function isInstalled(project: NodeJS.Require, path: string): boolean {
  try {
    project.resolve(path);
    return true;
  } catch (error) {
    // The package is there, but not for `require`.
    return (error as NodeJS.ErrnoException).code === "ERR_PACKAGE_PATH_NOT_EXPORTED";
  }
}
