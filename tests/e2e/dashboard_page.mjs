// What the scenarios of dashboard.mjs share: a browser on the page, what the server sent it, and questions to the same server beside it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const CHROMIUM = process.env.KVIST_TEST_CHROMIUM ?? '/usr/bin/chromium';
export const DEADLINE_MS = 100_000; // for what must happen at all: a slow machine is no failure

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until `check` returns something true, and returns that. */
export async function eventually(what, check) {
  const end = Date.now() + DEADLINE_MS;
  let last;
  for (;;) {
    try {
      last = await check();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    assert.ok(Date.now() < end, `${what}: ${last instanceof Error ? last.stack : JSON.stringify(last)}`);
    await sleep(100);
  }
}

/** The number in "27.2 ms", "1.24 s", "1,234", "95.0 %", with the error that its digits allow; null for "–". */
export function read(text) {
  if (text.trim().startsWith('–')) return null;
  const match = /^\s*(-?[\d,]+(?:\.(\d+))?)\s*(ms|s|%|k|M|G)?/.exec(text);
  assert.ok(match, `no number: ${text}`);
  const scale = { s: 1000, k: 1000, M: 1e6, G: 1e9 }[match[3]] ?? 1;
  return { value: Number(match[1].replaceAll(',', '')) * scale, error: 0.51 * scale * 10 ** -(match[2]?.length ?? 0) };
}

export function assertShown(text, expected, what) {
  const shown = read(text);
  if (expected === null || expected === undefined) {
    assert.equal(shown, null, `${what} is not known, and the page has ${text}`);
    return;
  }
  assert.ok(shown !== null, `${what} is ${expected}, and the page has none`);
  assert.ok(Math.abs(shown.value - expected) <= shown.error, `${what} is ${expected}, and the page has ${text}`);
}

export class Dashboard {
  problems = [];
  /** Messages of the server to the page, by type; answers as they came. */
  received = {};

  static async open(url, options = {}) {
    const dashboard = new Dashboard();
    dashboard.url = url;
    dashboard.browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
    dashboard.context = await dashboard.browser.newContext({ viewport: { width: 1280, height: 900 }, acceptDownloads: true, ...options });
    dashboard.page = await dashboard.context.newPage();
    dashboard.#listen();
    await dashboard.page.goto(url);
    await dashboard.connected();
    return dashboard;
  }

  #listen() {
    const { page } = this;
    page.setDefaultTimeout(DEADLINE_MS);
    page.on('console', (message) => message.type() === 'error' && this.problems.push(message.text()));
    page.on('pageerror', (error) => this.problems.push(String(error)));
    page.on('dialog', (dialog) => { this.problems.push(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
    const here = new URL(this.url).host;
    page.on('request', (request) => {
      const to = new URL(request.url());
      if (!['data:', 'blob:'].includes(to.protocol) && to.host !== here) this.problems.push(`a request to ${request.url()}`);
    });
    page.on('websocket', (socket) => socket.on('framereceived', ({ payload }) => {
      const message = JSON.parse(payload.toString());
      (this.received[message.type] ??= []).push(message);
      if (this.received[message.type].length > 400) this.received[message.type].shift();
    }));
  }

  async connected() {
    await this.page.locator('.connection[data-state="open"]').waitFor();
  }

  /** hello, sample and baseline, as programs get them. */
  async state() {
    const answer = await fetch(new URL('api/state', this.url));
    assert.equal(answer.status, 200);
    return answer.json();
  }

  async view(name) {
    await this.page.evaluate((hash) => { location.hash = hash; }, `#/${name}`);
    await this.page.locator('main > .view').waitFor();
  }

  /** What `look` finds in the page while it shows the newest sample, and that sample as the API has it. */
  async sameMoment(look) {
    return eventually('the page shows the sample that the API has', async () => {
      const before = await this.state();
      const { found, shown } = await this.page.evaluate(`({ found: ${look}, shown: document.querySelector('main').dataset.sample })`);
      const after = await this.state();
      const same = before.sample && String(before.sample.t_ms) === shown && after.sample.t_ms === before.sample.t_ms;
      return same ? { state: before, found } : null;
    });
  }

  /** The newest answer to a question that has a key. */
  answerWith(key, accept = () => true) {
    return (this.received.reply ?? []).filter((reply) => reply.ok && reply.result && key in reply.result && accept(reply.result)).pop()?.result;
  }

  async accessible(what) {
    await this.page.evaluate(readFileSync(axe, 'utf8'));
    for (const colorScheme of ['light', 'dark']) {
      await this.page.emulateMedia({ colorScheme });
      await sleep(300);
      const { violations, passes } = await this.page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }));
      assert.deepEqual(violations.map((found) => [found.id, found.nodes.map((node) => `${node.html} ${node.failureSummary}`)]), [], `${what}, ${colorScheme}`);
      assert.ok(passes.length > 15, `axe looked at ${what}`);
    }
    await this.page.emulateMedia({ colorScheme: 'light' });
  }

  /** Nothing is wider than the window but what scrolls by itself. */
  async fits(what) {
    for (const width of [390, 1280]) {
      await this.page.setViewportSize({ width, height: 844 });
      await sleep(300);
      const most = await this.page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(most <= width, `${what} is ${most} pixels wide in a window of ${width}`);
    }
  }

  noProblems() {
    assert.deepEqual(this.problems, []);
  }

  async close() {
    await this.browser.close();
  }
}
