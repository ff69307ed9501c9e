// Every statement under sql/ opens with a header that says who runs it, what it does, takes, returns and locks.
// Migrations say who runs them and what they do.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const folder = join(dirname(dirname(fileURLToPath(import.meta.url))), "sql");
const complaints = [];
for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile()) continue;
  const path = join(entry.parentPath, entry.name);
  const name = relative(folder, path);
  if (!/^[a-z]+\/[a-z0-9_]+\.sql$/.test(name))
    complaints.push(`${name}: a statement is sql/<role>/<verb>_<noun>.sql`);
  const wanted = name.startsWith("migrations/")
    ? ["Runs", "Does"]
    : ["Runs", "Does", "Params", "Returns", "Locks"];
  const header = readFileSync(path, "utf8").match(/^(--.*\n)+/)?.[0] ?? "";
  for (const part of wanted) {
    if (!new RegExp(`^-- ${part}:\\s+\\S`, "m").test(header))
      complaints.push(`${name}: the header has no "${part}:"`);
  }
}
if (complaints.length > 0) {
  console.error(complaints.join("\n"));
  process.exit(1);
}
