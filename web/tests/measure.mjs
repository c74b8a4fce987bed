// How fast the page is, with made-up messages: bytes, first paint, axe-core's findings, and the time of a frame with a day of samples.
// node tests/measure.mjs. Needs `npm run build`, the driver of tests/e2e, and Debian's Chromium.
import { createRequire } from "node:module";
import { gzipSync } from "node:zlib";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import http from "node:http";
import path from "node:path";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(path.join(here, "../../tests/e2e/package.json"));
const { chromium } = require("playwright-core");
const DAY_S = 86_400;
const FRAMES = 60;

const bundled = path.join(here, "../dist-tests/messages.mjs");
await build({ entryPoints: [path.join(here, "messages.ts")], bundle: true, format: "esm", platform: "node", outfile: bundled });
const made = await import(bundled);
const files = Object.fromEntries(await Promise.all(["index.html", "app.js", "app.css"].map(async (name) => [name, await readFile(path.join(here, "../dist", name))])));
const gzipped = Object.fromEntries(Object.entries(files).map(([name, data]) => [name, gzipSync(data, { level: 9 })]));

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
const server = http.createServer((request, response) => {
  const name = new URL(request.url, "http://x").pathname.replace("/dashboard/", "") || "index.html";
  if (!gzipped[name]) return response.writeHead(404).end();
  response.writeHead(200, { "Content-Type": TYPES[path.extname(name)], "Content-Encoding": "gzip" }).end(gzipped[name]);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${server.address().port}/dashboard/`;

/** A day of one sample a second, as columns, as if the server kept it so fine. */
function day() {
  const rows = Array.from({ length: DAY_S }, (_, t) => ({ ...made.live(t % 400), concurrency: 24, running: 1 }));
  return { of: "live", step_s: 1, t_ms: rows.map((_, t) => made.NOW_MS - (DAY_S - t) * 1000), series: Object.fromEntries(Object.keys(rows[0]).map((key) => [key, rows.map((row) => row[key] ?? null)])) };
}

const wantsAxe = !process.argv.includes("--no-axe");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

/** A page on the server, which answers questions for the past by `past`; with the processor's time of its thread in seconds. */
async function open(past) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  let socket;
  await page.routeWebSocket(/\/dashboard\/ws$/, (opened) => {
    socket = opened;
    const send = (message) => socket.send(JSON.stringify(message));
    socket.onMessage((text) => {
      const command = JSON.parse(text);
      send({ type: "reply", id: command.id, ok: true, result: past(command) ?? made.answer(command, 0) });
      if (command.topic) send(made[command.topic]());
    });
    for (const message of [made.hello(), made.baseline(), made.events(), made.sweep()]) send(message);
  });
  const devtools = await page.context().newCDPSession(page);
  // The processor's time beside the wall's, which on a busy machine says little.
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy_s = async () => (await devtools.send("Performance.getMetrics")).metrics.find((metric) => metric.name === "TaskDuration").value;
  await page.goto(base, { waitUntil: "commit" });
  await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
  return { page, devtools, busy_s, send: (message) => socket.send(JSON.stringify(message)) };
}

const result = { gzipped_bytes: Object.values(gzipped).reduce((sum, data) => sum + data.length, 0), first_contentful_paint_ms: [] };
for (let i = 0; i < 5; i++) {
  const opened = await open(() => undefined);
  result.first_contentful_paint_ms.push(Math.round(await opened.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime)));
  await opened.page.close();
}

const { page, devtools, busy_s, send } = await open((command) => (command.command === "history" && command.of === "live" && command.window_s === 1800 ? day() : undefined));
await page.getByRole("button", { name: "24 h" }).click();
await page.waitForTimeout(3000);
await page.evaluate(() => {
  window.frames_ms = [];
  const raf = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) => raf((now) => {
    const begin = performance.now();
    callback(now);
    window.frames_ms.push(performance.now() - begin);
  });
});
const measured = {};
for (const [name, hash] of [["live", "#/live"], ["workers", "#/workers"]]) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.waitForTimeout(500);
  await page.evaluate(() => { window.frames_ms.length = 0; });
  const before = await busy_s();
  for (let t = 0; t < FRAMES; t++) {
    send(made.sample(FRAMES * (name === "live" ? 0 : 1) + t));
    await page.waitForTimeout(40);
  }
  const cpu = (1000 * (await busy_s() - before)) / FRAMES;
  const frames = (await page.evaluate(() => window.frames_ms)).sort((a, b) => a - b);
  measured[name] = { cpu_ms_per_sample: +cpu.toFixed(1), frames: frames.length, p50_ms: +frames[Math.floor(frames.length / 2)].toFixed(1), p95_ms: +frames[Math.floor(frames.length * 0.95)].toFixed(1), most_ms: +frames[frames.length - 1].toFixed(1) };
}
result.frame_with_a_day = measured;
await devtools.send("HeapProfiler.collectGarbage");
const { usedSize, backingStorageSize } = await devtools.send("Runtime.getHeapUsage");
result.memory_mib = { objects: +(usedSize / 2 ** 20).toFixed(1), arrays: backingStorageSize === undefined ? null : +(backingStorageSize / 2 ** 20).toFixed(1) };

await page.addScriptTag({ path: require.resolve("axe-core/axe.min.js") });
result.axe = {};
for (const view of wantsAxe ? ["live", "workers", "conversations", "conversations/0-35", "decisions/898", "sweeps/run-0"] : []) {
  for (const theme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: theme });
    await page.evaluate((to) => { location.hash = to; }, `#/${view}`);
    await page.waitForTimeout(500);
    const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
    result.axe[`${view} ${theme}`] = found.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 120) + " " + (node.any[0]?.message ?? "")).join(" | ")}`);
  }
}
console.log(JSON.stringify(result, null, 1));
await browser.close();
server.close();
