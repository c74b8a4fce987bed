// Builds web/dist/{index.html,app.js,app.css}, which CMake embeds in the binary; with --tests, the unit tests into
// web/dist-tests, which `node --test` runs.
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const from = (...parts) => path.join(here, ...parts);

async function page() {
  const out = from("dist");
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  await build({
    entryPoints: [{ in: from("src/main.ts"), out: "app" }, { in: from("src/app.css"), out: "app" }],
    outdir: out, bundle: true, minify: true, format: "esm", target: "es2021", charset: "utf8", legalComments: "none", logLevel: "warning",
  });
  await copyFile(from("src/index.html"), path.join(out, "index.html"));
}

async function tests() {
  const out = from("dist-tests");
  await rm(out, { recursive: true, force: true });
  const names = (await readdir(from("tests"))).filter((name) => name.endsWith("_test.ts"));
  await build({
    entryPoints: names.map((name) => from("tests", name)),
    outdir: out, bundle: true, platform: "node", format: "esm", target: "node18", sourcemap: "inline", logLevel: "warning",
    outExtension: { ".js": ".mjs" },
  });
}

await (process.argv.includes("--tests") ? tests() : page());
