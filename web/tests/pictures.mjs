// The pictures of docs/images, of a real deployment and of stored runs: scripts/draw-dashboard starts both and calls
// node pictures.mjs UP_URL STORED_URL FOLDER. The story: 12 users, then 36, round-robin; then KV-aware.
import { createRequire } from "node:module";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import path from "node:path";

const here = path.dirname(fileURLToPath(import.meta.url));
const { chromium } = createRequire(path.join(here, "../../tests/e2e/package.json"))("playwright-core");
const [up, stored, out] = process.argv.slice(2);
const SETTLED_MS = Number(process.env.SETTLED_MS ?? 75_000);
const SIZES = [["wide", 1280, 940], ["narrow", 390, 844]];
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

await mkdir(out, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 940 }, colorScheme: "light" });
page.on("console", (message) => message.type() === "error" && console.log(message.text()));

async function draw(name, whole = false) {
  for (const [size, width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await sleep(1300);
      await page.screenshot({ path: path.join(out, `dashboard-${name}-${size}-${colorScheme}.png`), fullPage: whole && size === "wide" });
    }
  }
  await page.setViewportSize({ width: 1280, height: 940 });
}

async function view(name) {
  await page.evaluate((hash) => { location.hash = hash; }, `#/${name}`);
  await sleep(2500);
}

await page.goto(up);
await page.locator('.connection[data-state="open"]').waitFor();
const users = async (count) => {
  await page.locator("#concurrency").fill(String(count));
  await sleep(1000);
};
await users(12);
await page.locator("#start-stop").click();
// In the first half minute, while caches are cold, conversations show best what a cache is worth.
await sleep(25_000);
await view("conversations");
const gains = await page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => {
  const [first, last] = (/([\d.]+)(?: ms)? → ([\d.]+) ms/.exec(row.textContent) ?? []).slice(1).map(Number);
  return row.textContent.includes("done") && last > 0 ? first / last : 0;
}));
await page.locator("tbody tr").nth(gains.indexOf(Math.max(...gains))).locator("a").click();
await sleep(2000);
await page.locator(".master .scroll").evaluate((element) => { element.scrollTop = 0; });
await page.mouse.move(5, 5);
await draw("conversations");
await view("live");
await sleep(SETTLED_MS - 25_000);
await users(36);
await sleep(SETTLED_MS);
await page.getByRole("button", { name: "KV-aware" }).click();
await sleep(SETTLED_MS);
await draw("live", true);
await view("workers");
await draw("workers", true);
await view("decisions");
await page.getByRole("button", { name: "Hold" }).click();
await page.locator("tbody tr a").nth(5).click();
await page.mouse.move(5, 5);
await sleep(1000);
await draw("decisions");
await page.goto(stored);
await page.locator('.connection[data-state="open"]').waitFor();
await view("sweeps");
await page.locator(".master tbody a").first().click();
await page.locator(".run canvas").first().waitFor();
await draw("sweeps", true);
await browser.close();
