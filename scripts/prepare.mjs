// npm runs this after an install. It builds, and skips where the compiler is not there (`npm ci --omit=dev`).
import { build, findCompiler } from "./build.mjs";

if (findCompiler() === undefined)
  console.error("gen-durable: TypeScript is not installed, the build is skipped.");
else build();
