// The page with a server that is made up here: one that answers late, goes away, or is another one afterwards. Usage: node dashboard_slow.mjs URL,
// of a server that has the page's files.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';
import { eventually, sleep } from './dashboard_page.mjs';

const url = process.argv[2].replace(/#.*/, '');
const CHROMIUM = process.env.KVIST_TEST_CHROMIUM ?? '/usr/bin/chromium';
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });

const CONTROLS = { start: true, stop: true, concurrency: { min: 1, max: 4096, live: true }, rate_per_s: { min: 0, max: 1000, live: true }, modes: ['kv'], token_required: false };

/** A page whose socket speaks with `answer`, which gets each command and a function for its result. */
class MadeUp {
  commands = [];
  sockets = [];
  errors = [];
  serverId = 'first';
  users = 24;
  isGone = false;

  static async open(hash, answer = () => undefined) {
    const made = new MadeUp();
    made.page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    made.page.on('pageerror', (error) => made.errors.push(String(error)));
    await made.page.routeWebSocket(/\/ws$/, (socket) => made.#serve(socket, answer));
    await made.page.goto(url + hash);
    return made;
  }

  #serve(socket, answer) {
    if (this.isGone) return void socket.close({ code: 1001 });
    const send = (message) => {
      try {
        socket.send(JSON.stringify(message));
      } catch {
        clearInterval(samples);  // the page has gone
      }
    };
    this.sockets.push(socket);
    socket.onMessage((text) => {
      const command = JSON.parse(text);
      this.commands.push(command);
      const reply = (result) => send({ type: 'reply', id: command.id, ok: true, result });
      if (!answer(command, reply)) reply(command.command === 'runs' ? { runs: [] } : {});
    });
    send({ type: 'hello', protocol: 1, version: 'x', server_id: this.serverId, source: 'up', title: 'made up', now_ms: Date.now(), window_s: 30, has: {}, slo: [], history: [], controls: CONTROLS });
    let seq = 0;
    const sample = () => send({ type: 'sample', seq: ++seq, t_ms: Date.now(), live: {}, load: { state: 'running', concurrency: this.users, open: false } });
    const samples = setInterval(sample, 250);
    sample();
  }

  async close() {
    assert.deepEqual(this.errors, []);
    await this.page.close();
  }
}

/** The first digits of a number are another number. */
async function whatIsTypedIsSentWhenItIsComplete() {
  const sent = [];
  const made = await MadeUp.open('#/live', (command, reply) => {
    if (command.command !== 'set_concurrency') return false;
    sent.push(made.users = command.concurrency);
    reply({});
    return true;
  });
  const field = made.page.locator('#concurrency');
  await eventually('the page shows the number of users', async () => (await field.inputValue()) === '24');
  await field.click();
  await field.selectText();
  await field.pressSequentially('36', { delay: 400 });
  await sleep(2000);  // longer than the page keeps its hands off a control
  assert.equal(await field.inputValue(), '36');
  assert.deepEqual(sent, []);
  await field.press('Enter');
  await eventually('Enter sends it', () => sent.length > 0);
  await field.selectText();
  await field.pressSequentially('99999');
  await field.press('Tab');
  await sleep(500);
  await field.fill('40');
  await field.press('Tab');
  await eventually('leaving the field sends it', () => sent.length > 1);
  await made.page.locator('#concurrency-slider').focus();
  await made.page.keyboard.press('ArrowRight');
  await eventually('the slider sends where it stays', () => sent.length > 2);
  await sleep(500);
  assert.deepEqual(sent, [36, 40, 41]);
  await made.close();
}

const NAMES = { '0-1': 'A', '0-2': 'B', '0-3': 'C' };
const summary = (run) => ({ run, name: NAMES[run], finished: true, simulated: false, modes: ['kv'], concurrencies: [1], levels: 1 });
const runOf = (run, name = NAMES[run]) => ({ ...summary(run), name, figures: [{ figure: 'ttft_p95_ms', title: 'TTFT p95', unit: 'ms' }],
  modes: [{ mode: 'kv', title: `KV of ${name}`, levels: [{ concurrency: 1, figures: { ttft_p95_ms: { value: 5 } }, level_ids: [1], remarks: [] }] }], files: [] });

/** Answers with the runs above; `late(command)`: milliseconds until a run is answered. */
function runs(late = () => 0) {
  return (command, reply) => {
    if (command.command === 'runs') reply({ runs: Object.keys(NAMES).map(summary) });
    else if (command.command === 'run') setTimeout(() => reply(runOf(command.run)), late(command));
    else if (command.command === 'compare') reply({ baseline: command.baseline, candidate: command.candidate, levels: [] });
    else return false;
    return true;
  };
}

const title = (made) => made.page.locator('.run h2').first().innerText();

/** Canvases that the page holds, shown or not. */
async function canvases(page) {
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('HeapProfiler.collectGarbage');
  const { result } = await devtools.send('Runtime.evaluate', { expression: 'HTMLCanvasElement.prototype' });
  const { objects } = await devtools.send('Runtime.queryObjects', { prototypeObjectId: result.objectId });
  const { result: all } = await devtools.send('Runtime.callFunctionOn', { objectId: objects.objectId, functionDeclaration: 'function () { return this.length; }', returnByValue: true });
  await devtools.detach();
  return all.value;
}

async function plotsThatAreGoneTakeNoMemory() {
  const made = await MadeUp.open('#/sweeps/0-1', runs());
  const choose = async (run) => {
    await made.page.evaluate((hash) => { location.hash = hash; }, `#/sweeps/${run}`);
    await eventually(`run ${run} is on show`, async () => (await title(made)) === NAMES[run] && (await made.page.locator('.run .plots canvas').count()) === 1);
  };
  await choose('0-1');
  const before = await canvases(made.page);
  for (let i = 0; i < 10; i++) await choose(i % 2 === 0 ? '0-2' : '0-1');
  const after = await canvases(made.page);
  assert.ok(after <= before + 2, `${before} canvases, and ${after} after ten other runs`);
  await made.close();
}

async function aRunIsAskedForAgain() {
  let answers = false;
  const made = await MadeUp.open('#/sweeps/0-1', runs(() => (answers ? 0 : 60_000)));
  await eventually('the run is asked for', () => made.commands.some((command) => command.command === 'run'));
  answers = true;
  await made.sockets[0].close({ code: 1001 });
  await eventually('the run is on show after the connection was lost', async () => (await title(made)) === 'A');
  assert.equal(made.commands.filter((command) => command.command === 'run').length, 2);
  // What is on show stays while the same server comes back.
  await made.sockets[1].close({ code: 1001 });
  await eventually('it is connected again', () => made.sockets.length === 3);
  await eventually('it is greeted', () => made.page.locator('.connection[data-state="open"]').isVisible());
  await sleep(1000);  // in which it would have asked
  assert.equal(await title(made), 'A');
  assert.equal(made.commands.filter((command) => command.command === 'run').length, 2);
  // Another server has another run of that id.
  made.serverId = 'second';
  NAMES['0-1'] = 'another';
  await made.sockets[2].close({ code: 1001 });
  await eventually('the other server\'s run is on show', async () => (await title(made)) === 'another');
  NAMES['0-1'] = 'A';
  await made.close();
}

async function aLateComparisonIsNotDrawnOverAnotherRun() {
  const made = await MadeUp.open('#/sweeps/0-1', runs((command) => (command.run === '0-2' ? 2000 : 0)));
  await eventually('the first run is on show', async () => (await title(made)) === 'A');
  const plot = made.page.locator('.run .plots .plot-canvas').first();
  await made.page.selectOption('#compare-run', '0-2');
  await eventually('the other is asked for', () => made.commands.some((command) => command.run === '0-2'));
  await made.page.evaluate(() => { location.hash = '#/sweeps/0-3'; });
  await eventually('the third run is on show', async () => (await title(made)) === 'C');
  assert.equal(await made.page.locator('#compare-run').inputValue(), '');
  await sleep(2500);
  assert.equal(await plot.getAttribute('aria-label'), 'TTFT p95: KV of C 5.00 ms at 1');
  assert.equal(made.commands.filter((command) => command.command === 'compare').length, 0);
  await made.page.selectOption('#compare-run', '0-1');
  await eventually('one that is waited for is drawn', async () => /KV of A ′/.test(await plot.getAttribute('aria-label')));
  assert.deepEqual(made.commands.filter((command) => command.command === 'compare').map(({ baseline, candidate }) => [baseline, candidate]), [['0-1', '0-3']]);
  await made.close();
}

async function aFragmentThatIsNoEncodingIsTaken() {
  const made = await MadeUp.open('#/conversations/100%');
  await eventually('it is connected', () => made.sockets.length === 1);
  await eventually('it asks for what was named', () => made.commands.some((command) => command.conversation === '100%'));
  await made.close();
}

async function theSecondsToTheNextAttemptAreNotRead() {
  const made = await MadeUp.open('#/live');
  await eventually('it is connected', () => made.page.locator('.connection[data-state="open"]').isVisible());
  await made.page.evaluate(() => {
    window.told = [];
    new MutationObserver(() => window.told.push(document.querySelector('.connection [role="status"]').textContent)).observe(document.querySelector('.connection [role="status"]'), { childList: true, characterData: true, subtree: true });
  });
  made.isGone = true;
  await made.sockets[0].close({ code: 1001 });
  await eventually('the seconds are shown', async () => /the server has ended; next attempt in \d s/.test(await made.page.locator('.connection').textContent()));
  await sleep(4000);  // several attempts
  const told = await made.page.evaluate(() => window.told);
  assert.ok(told.length >= 1 && told.every((text) => !/\d s/.test(text)), JSON.stringify(told));
  assert.ok(told.length <= 2, JSON.stringify(told));
  await made.close();
}

for (const test of [whatIsTypedIsSentWhenItIsComplete, plotsThatAreGoneTakeNoMemory, aRunIsAskedForAgain, aLateComparisonIsNotDrawnOverAnotherRun,
  aFragmentThatIsNoEncodingIsTaken, theSecondsToTheNextAttemptAreNotRead]) {
  await test();
  console.error(`ok      ${test.name}`);
}
await browser.close();
process.stdout.write('passed\n');
process.exit(0);
