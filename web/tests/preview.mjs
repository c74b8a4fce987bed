// Pictures of every view with made-up messages, for looking at the page without a server: node tests/preview.mjs FOLDER. Needs `npm run build`,
// the driver of tests/e2e, and Debian's Chromium.
import { createRequire } from "node:module";
import { mkdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";
import { build } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const { chromium } = createRequire(path.join(here, "../../tests/e2e/package.json"))("playwright-core");
const out = process.argv[2] ?? "preview";
const only = process.argv[3] ?? "";
const NOW = 262;

const bundled = path.join(here, "../dist-tests/messages.mjs");
await build({ entryPoints: [path.join(here, "messages.ts")], bundle: true, format: "esm", platform: "node", outfile: bundled });
const made = await import(bundled);

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
const VIEWS = ["live", "workers", "conversations", "conversations/0-35", "decisions", "decisions/898", "sweeps/run-0"];

async function serve(page) {
  await page.route("http://kvist.test/dashboard/**", async (route) => {
    const file = new URL(route.request().url()).pathname.replace("/dashboard/", "") || "index.html";
    const type = TYPES[path.extname(file)];
    if (!type) return route.fulfill({ status: 404 });
    return route.fulfill({ body: await readFile(path.join(here, "../dist", file)), contentType: type });
  });
  await page.routeWebSocket("ws://kvist.test/dashboard/ws", (socket) => {
    const send = (message) => socket.send(JSON.stringify(message));
    socket.onMessage((text) => {
      const command = JSON.parse(text);
      send({ type: "reply", id: command.id, ok: true, result: made.answer(command, NOW) });
      if (command.topic) send(made[command.topic]());
    });
    for (const message of [made.hello(), made.baseline(), made.events(), made.sweep()]) send(message);
    for (let t = NOW; t < NOW + 4; t++) send(made.sample(t));
  });
}

await mkdir(out, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [width, height] of [[1280, 900], [390, 844]]) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme, deviceScaleFactor: 1 });
    page.on("console", (message) => message.type() === "error" && console.log(message.text()));
    page.on("pageerror", (error) => console.log(error));
    await serve(page);
    for (const view of VIEWS.filter((name) => name.startsWith(only))) {
      await page.goto(`http://kvist.test/dashboard/#/${view}`);
      await page.waitForTimeout(600);
      await page.screenshot({ path: path.join(out, `${view.replace("/", "-")}-${width}-${colorScheme}.png`), fullPage: true });
    }
    await page.close();
  }
}
await browser.close();
