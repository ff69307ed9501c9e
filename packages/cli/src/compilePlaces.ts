// Places: a compiled module lies elsewhere than its source. `import.meta.url` and its kin keep naming the source, so that
// a module still finds the files beside it.

import { readFile } from "node:fs/promises";
import { dirname, extname } from "node:path";
import { pathToFileURL } from "node:url";
import type { Loader, Plugin } from "esbuild";

const SUBSTITUTES: Readonly<Record<string, string>> = {
  "import.meta.url": "__gen_durable_url__",
  "import.meta.filename": "__gen_durable_filename__",
  "import.meta.dirname": "__gen_durable_dirname__",
  __filename: "__gen_durable_filename__",
  __dirname: "__gen_durable_dirname__",
};
const MENTIONS = /\bimport\.meta\b|\b__(?:file|dir)name\b/;
const LOADERS: Readonly<Record<string, Loader>> = {
  ".ts": "ts",
  ".mts": "ts",
  ".cts": "ts",
  ".tsx": "tsx",
  ".js": "js",
  ".mjs": "js",
  ".cjs": "js",
  ".jsx": "jsx",
};

/** The build options that keep a module's idea of where it is. Line numbers stay as they are. */
export function originalPlaces(): { define: Record<string, string>; plugins: Plugin[] } {
  return { define: { ...SUBSTITUTES }, plugins: [plugin] };
}

const plugin: Plugin = {
  name: "gen-durable-places",
  setup(build) {
    build.onLoad({ filter: /\.[cm]?[jt]sx?$/, namespace: "file" }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const loader = LOADERS[extname(path)];
      if (loader === undefined || !MENTIONS.test(source)) return undefined;
      // A hashbang is only legal at the very start.
      const start = source.startsWith("#!") ? source.indexOf("\n") + 1 : 0;
      return { contents: source.slice(0, start) + declarations(path) + source.slice(start), loader };
    });
  },
};

function declarations(path: string): string {
  const values: Record<string, string> = {
    __gen_durable_url__: pathToFileURL(path).href,
    __gen_durable_filename__: path,
    __gen_durable_dirname__: dirname(path),
  };
  return Object.entries(values)
    .map(([name, value]) => `const ${name} = ${JSON.stringify(value)};`)
    .join(" ")
    .concat(" ");
}
