// The dashboard in Debian's Chromium, against the server that dashboard_test.py started. Usage: node dashboard.mjs SCENARIO URL JSON
// A scenario asks for something of the test that started it by a line of its output, and reads a line when that is done.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import readline from 'node:readline';
import { assertShown, Dashboard, eventually, read, sleep } from './dashboard_page.mjs';

const [scenario, url, json] = process.argv.slice(2);
const facts = JSON.parse(json);
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(line) {
  process.stdout.write(`${line}\n`);
  return (await input.next()).value;
}

/** The texts of all elements with an attribute, by its value. */
const texts = (attribute) => `Object.fromEntries([...document.querySelectorAll('[data-${attribute}]')].map((element) => [element.dataset.${attribute}, element.textContent]))`;

async function startAndFollow(dashboard) {
  const { page } = dashboard;
  await eventually('the page has its first sample, in which no load runs', async () => /No load is running/.test(await page.locator('#verdict').textContent()));
  assert.equal(await page.locator('.tile-value[data-figure="turns_per_s"]').textContent(), '–');
  assert.equal((await dashboard.state()).sample.load.state, 'idle');
  await page.locator('#concurrency').fill('4');
  await page.locator('#start-stop').click();
  await eventually('the load runs with the number of users that was chosen', async () => {
    const { load } = (await dashboard.state()).sample;
    return load.state === 'running' && load.concurrency === 4;
  });
  await eventually('figures come', async () => (await dashboard.state()).sample.live.ttft_p95_ms !== null);
}

async function valuesAreTheApis(dashboard) {
  await eventually('a dozen figures are known', async () => Object.values((await dashboard.state()).sample.live).filter((value) => value !== null).length >= 14);
  const { state, found } = await dashboard.sameMoment(`({ now: ${texts('figure')}, then: ${texts('baseline')} })`);
  const { live, baseline } = state.sample;
  let compared = 0;
  for (const [figure, text] of Object.entries(found.now)) {
    assert.ok(figure in live, figure);
    assertShown(text, live[figure], figure);
    compared += live[figure] === null ? 0 : 1;
  }
  assert.ok(compared >= 12, `${compared} figures were known`);
  for (const [figure, text] of Object.entries(found.then)) assertShown(text, baseline.round_robin.figures[figure], `the baseline's ${figure}`);
}

async function slider(dashboard) {
  const { page } = dashboard;
  const slider = page.locator('#concurrency-slider');
  await slider.focus();
  for (let i = 0; i < 4; i++) await page.keyboard.press('ArrowRight');
  assert.equal(await page.locator('#concurrency').inputValue(), '8');
  await eventually('the slider sets the number of users', async () => (await dashboard.state()).sample.load.concurrency === 8);
  await eventually('the page was told of the change', () => (dashboard.received.events ?? []).some((message) => message.events.some((event) => event.kind === 'concurrency' && event.to === '8')));
}

/** Figures of the file that was given as baseline, linear between its two levels. */
function expectedBaseline(figure, concurrency) {
  const [low, high] = facts.levels;
  const share = (concurrency - low.concurrency) / (high.concurrency - low.concurrency);
  return (low.round_robin[figure] + share * (high.round_robin[figure] - low.round_robin[figure])) / facts.timeScale;
}

async function baselineIsWhereTheReferenceSays(dashboard) {
  const { page } = dashboard;
  const look = `({ then: ${texts('baseline')}, words: document.querySelector('.detail').textContent, note: document.querySelector('.live .card .note:last-child').textContent })`;
  const { state, found } = await dashboard.sameMoment(look);
  assert.equal(state.sample.load.concurrency, 8);
  for (const figure of ['ttft_p50_ms', 'ttft_p95_ms', 'tpot_p50_ms', 'tpot_p95_ms', 'latency_p50_ms', 'latency_p95_ms']) assertShown(found.then[figure], expectedBaseline(figure, 8), `the baseline's ${figure} at 8 users`);
  assertShown(found.then.itl_p95_ms, null, 'ITL, which the reference does not have');
  assert.match(found.words, /interpolated between 4 and 12 users/);
  assert.match(found.note, /interpolated between 4 and 12 users/);
  await sleep(8000); // the line since the change gets some pixels long
  const ttft = page.locator('figure.plot').first();
  const drawn = await ttft.evaluate((figure) => {
    const box = figure.querySelector('.plot-canvas');
    const canvas = figure.querySelector('canvas');
    const over = figure.querySelector('.u-over').getBoundingClientRect();
    const whole = canvas.getBoundingClientRect();
    const ratio = canvas.width / whole.width;
    const area = { left: (over.left - whole.left) * ratio, top: (over.top - whole.top) * ratio, width: over.width * ratio, height: over.height * ratio };
    const hex = getComputedStyle(document.documentElement).getPropertyValue('--base').trim();
    const wanted = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    const { data } = canvas.getContext('2d').getImageData(Math.round(area.left + area.width - 8 * ratio), 0, Math.round(7 * ratio), canvas.height);
    const columns = data.length / 4 / canvas.height;
    const rows = [];
    for (let y = Math.ceil(area.top); y < area.top + area.height; y++) {  // the words of the marks are above
      let count = 0;
      for (let x = 0; x < columns; x++) {
        const at = 4 * (y * columns + x);
        if (data[at + 3] > 100 && wanted.every((value, k) => Math.abs(data[at + k] - value) < 24)) count++;
      }
      if (count > 0) rows.push({ y, count });
    }
    return { area, rows, top: Number(box.dataset.top), ratio };
  });
  const value = expectedBaseline('ttft_p95_ms', 8);
  const wanted = drawn.area.top + (1 - value / drawn.top) * drawn.area.height;
  const most = drawn.rows.reduce((a, b) => (b.count > a.count ? b : a), { y: NaN, count: 0 });
  assert.ok(Math.abs(most.y - wanted) <= 2 * drawn.ratio, `the baseline's p95 of ${value} ms belongs at row ${wanted}, and is drawn at ${JSON.stringify(drawn.rows)}`);
}

async function gradesAndModes(dashboard) {
  const { page } = dashboard;
  assert.equal(await page.locator('.now[data-figure="ttft_p95_ms"]').getAttribute('data-grade'), 'bad'); // its limit is 0.01 ms
  assert.equal(await page.locator('.now[data-figure="latency_p95_ms"]').getAttribute('data-grade'), 'good'); // 10 minutes
  const mode = async () => JSON.parse(await ask('router-mode')).mode;
  await page.getByRole('button', { name: 'round-robin' }).click();
  await eventually('the button sets the mode', async () => (await mode()) === 'round_robin');
  await page.locator('.segments [aria-pressed="true"]', { hasText: 'round-robin' }).waitFor();
  await page.getByRole('button', { name: 'KV-aware' }).click();
  await eventually('and back', async () => (await mode()) === 'kv');
  await eventually('the page was told of the change', () => (dashboard.received.events ?? []).some((message) => message.events.some((event) => event.kind === 'mode' && event.to === 'kv')));
}

async function workers(dashboard) {
  await dashboard.view('workers');
  const look = `Object.fromEntries([...document.querySelectorAll('tr[data-worker]')].map((row) => [row.dataset.worker, Object.fromEntries([...row.querySelectorAll('td')].map((cell) => [cell.dataset.label, [cell.firstChild.textContent, cell.title]]))]))`;
  const { state, found } = await dashboard.sameMoment(look);
  assert.deepEqual(Object.keys(found), state.sample.workers.map((worker) => worker.name));
  assert.equal(state.sample.workers.length, facts.workers);
  for (const worker of state.sample.workers) {
    const cells = found[worker.name];
    const [used, slots] = cells['Batch slots'][0].split(' of ');
    assertShown(used, worker.slots_used, 'slots used');
    assertShown(slots, worker.slots, 'slots');
    assertShown(cells.Queue[0], worker.queue, 'queue');
    assertShown(cells['Hit rate'][0], worker.hit_rate_pct, 'hit rate');
    assertShown(cells.Step[0], worker.step_ms, 'step');
    assertShown(cells.Share[0], worker.share_pct, 'share');
    assertShown(cells.Accepted[0], worker.acceptance_rate_pct, 'acceptance');
    if (worker.acceptance_rate_pct === null) assert.match(cells.Accepted[1], /drafts no tokens/); // unknown, with the reason
    assert.equal(cells.Index[0], worker.index_trust ?? '–');
  }
  await dashboard.accessible('workers');
}

async function conversations(dashboard) {
  const { page } = dashboard;
  await dashboard.view('conversations');
  const done = page.locator('tbody tr', { hasText: 'done' }).filter({ hasText: '→' }).first();
  await done.locator('a').click();
  const id = decodeURIComponent(new URL(page.url()).hash.replace('#/conversations/', ''));
  await page.locator('.turn').first().waitFor();
  const answer = await eventually('the conversation was answered', () => dashboard.answerWith('turns_list', (result) => result.conversation === id));
  const shown = await page.evaluate(() => [...document.querySelectorAll('.turn')].map((turn) => ({
    ...Object.fromEntries([...turn.querySelectorAll('[data-figure]')].map((figure) => [figure.dataset.figure, figure.textContent])), asked: [...turn.querySelectorAll('.asked .bubble span:last-child')].map((span) => span.textContent), answer: turn.querySelector('.answer').textContent,
  })));
  assert.equal(shown.length, answer.turns_list.length);
  assert.ok(shown.length >= 2);
  answer.turns_list.forEach((turn, i) => {
    assertShown(shown[i].ttft_ms, turn.ttft_ms, 'TTFT');
    assertShown(shown[i].latency_ms, turn.latency_ms, 'latency');
    assertShown(shown[i].cached_tokens, turn.cached_tokens, 'cached tokens');
    assert.equal(shown[i].worker, turn.worker ?? '–');
    assert.deepEqual(shown[i].asked, turn.messages.map((message) => message.text));
    assert.equal(shown[i].answer, turn.answer);
  });
  await dashboard.accessible('conversations');
  return { page, shown };
}

async function decisions(dashboard) {
  const { page } = dashboard;
  await dashboard.view('decisions');
  await page.locator('table.list tbody tr').first().waitFor();
  await page.getByRole('button', { name: 'Hold' }).click();
  await page.locator('table.list tbody tr a').first().click();
  const number = Number(new URL(page.url()).hash.replace('#/decisions/', ''));
  const decision = await eventually('the decision was received', () => (dashboard.received.decisions ?? []).flatMap((message) => message.decisions).filter((candidate) => candidate.number === number).pop());
  const candidates = page.locator('table.candidates tbody tr');
  await eventually('all candidates', async () => (await candidates.count()) === decision.candidates.length);
  assert.equal(await page.locator('table.candidates tr.chosen').getAttribute('data-worker'), decision.chosen_name);
  for (const candidate of decision.candidates) {
    const row = page.locator(`table.candidates tr[data-worker="${candidate.name}"]`);
    assertShown(await row.locator('td[data-label="Cost"]').textContent(), candidate.cost, 'cost');
    assertShown(await row.locator('td[data-label="Predicted TTFT"]').textContent(), candidate.forecast.ttft_ms, 'predicted TTFT');
    assertShown(await row.locator('td[data-label="Cached"]').textContent(), candidate.cached_tokens, 'cached tokens');
  }
  await dashboard.accessible('decisions');
}

async function keyboard(dashboard) {
  const { page } = dashboard;
  await dashboard.view('live');
  await page.locator('body').press('Tab');
  const reached = new Set();
  for (let i = 0; i < 40; i++) {
    reached.add(await page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent?.trim() || ''));
    await page.keyboard.press('Tab');
  }
  for (const name of ['start-stop', 'concurrency', 'concurrency-slider', 'rate', 'KV-aware', 'Workers', '30 min', 'baseline-mode']) assert.ok(reached.has(name), `${name} is reached by Tab: ${[...reached].join(', ')}`);
}

async function twoViewers(dashboard) {
  const other = await dashboard.context.newPage();
  await other.goto(url);
  await other.locator('.connection[data-state="open"]').waitFor();
  await eventually('another viewer sees the same', async () => (await other.locator('#concurrency').inputValue()) === '8' && (await other.locator('#start-stop').textContent()) === 'Stop');
  await other.close();
}

async function stopIt(dashboard) {
  await dashboard.view('live');
  await dashboard.page.locator('#start-stop').click();
  await eventually('the load has stopped', async () => (await dashboard.state()).sample.load.state === 'idle');
  await eventually('the page says so', async () => (await dashboard.page.locator('#start-stop').textContent()) === 'Start');
}

async function restart(dashboard) {
  const { page } = dashboard;
  dashboard.noProblems();
  await ask('stop-server');
  await page.locator('.connection[data-state="lost"]').waitFor();
  assert.match(await page.locator('.connection').textContent(), /next attempt in \d+ s/);
  assert.ok(await page.locator('#start-stop').isDisabled());
  await ask('start-server');
  await dashboard.connected();
  await eventually('the new server is on show', async () => (await page.locator('main').getAttribute('data-sample')) === String((await dashboard.state()).sample?.t_ms));
  assert.equal(new Set(dashboard.received.hello.map((hello) => hello.server_id)).size, 2);
  dashboard.problems = dashboard.problems.filter((problem) => !/WebSocket connection .* failed/.test(problem)); // attempts while there was no server
}

/** The dashboard that a scenario works with. */
let opened;

const scenarios = {
  async up() {
    const dashboard = (opened = await Dashboard.open(url));
    await startAndFollow(dashboard);
    await valuesAreTheApis(dashboard);
    await dashboard.accessible('live');
    await dashboard.fits('live');
    await slider(dashboard);
    await baselineIsWhereTheReferenceSays(dashboard);
    await gradesAndModes(dashboard);
    await twoViewers(dashboard);
    await workers(dashboard);
    await dashboard.fits('workers');
    await conversations(dashboard);
    await decisions(dashboard);
    await keyboard(dashboard);
    await stopIt(dashboard);
    await restart(dashboard);
    dashboard.noProblems();
    await dashboard.close();
  },

  async markup() {
    const dashboard = (opened = await Dashboard.open(url));
    const { page } = dashboard;
    await eventually('a conversation is over', async () => {
      await dashboard.view('conversations');
      return (await page.locator('tbody tr', { hasText: 'done' }).filter({ hasText: '→' }).count()) > 0;
    });
    const { shown } = await conversations(dashboard);
    assert.deepEqual(shown[0].asked, [facts.markup]);
    assert.equal(await page.locator('.chat img, .chat script, .chat b, .chat iframe').count(), 0);
    assert.notEqual(await page.title(), 'owned');
    dashboard.noProblems();
    await dashboard.close();
  },

  async sweep() {
    const dashboard = (opened = await Dashboard.open(url));
    const { page } = dashboard;
    await dashboard.view('sweeps');
    const rows = () => page.locator('[aria-label="Levels of the sweep"] tbody tr').evaluateAll((all) => all.map((row) => ({ state: row.dataset.state, cells: [...row.children].map((cell) => cell.textContent) })));
    const words = () => page.locator('[aria-label="Running sweep"] .note').textContent();
    await eventually('all levels are listed and one runs', async () => (await rows()).length === facts.levels && (await rows()).filter((row) => row.state === 'running').length === 1);
    assert.match(await words(), new RegExp(`^\\d+ %, \\d of ${facts.levels} levels`));
    await eventually('its end is estimated', async () => / ends about \d+:\d\d/.test(await words()));
    await dashboard.accessible('a running sweep');
    await dashboard.fits('a running sweep');
    await eventually('the first level is done', async () => (await rows())[0].state === 'done');
    const shown = await rows();
    const [first] = dashboard.received.sweep.at(-1).levels;
    assertShown(shown[0].cells[5], first.figures.ttft_p50_ms, 'TTFT p50 of the first level');
    assertShown(shown[0].cells[6], first.figures.ttft_p95_ms, 'TTFT p95 of the first level');
    assert.equal(Number(shown[0].cells[1]), first.concurrency);
    const before = await page.locator('[aria-label="Running sweep"] progress').evaluate((bar) => bar.value);
    assert.ok(before > 0 && before < 1, `${before}`);
    await eventually('it goes on', async () => (await page.locator('[aria-label="Running sweep"] progress').evaluate((bar) => bar.value)) > before);
    await dashboard.view('live');
    await eventually('the load of the sweep is on show', async () => read(await page.locator('.tile-value[data-figure="turns_per_s"]').textContent()) !== null);
    await ask('ended');
    await page.locator('.connection[data-state="lost"]').waitFor();
    dashboard.problems = dashboard.problems.filter((problem) => !/WebSocket connection .* failed/.test(problem)); // the server is gone for good
    dashboard.noProblems();
    await dashboard.close();
  },

  /** A gateway before engines of which less is known than of kvist's own. */
  async engines() {
    const dashboard = (opened = await Dashboard.open(url));
    await workers(dashboard);
    const { page } = dashboard;
    for (const label of facts.unknown) {
      const cells = await page.locator(`tr[data-worker] td[data-label="${label}"]`).allTextContents();
      assert.ok(cells.length === facts.workers && cells.every((text) => /^–| of –/.test(text)), `${label}: ${cells}`);
    }
    await dashboard.fits('workers');
    if (facts.picture) await page.screenshot({ path: facts.picture });
    dashboard.noProblems();
    await dashboard.close();
  },

  async stored() {
    const dashboard = (opened = await Dashboard.open(url));
    const { page } = dashboard;
    await dashboard.view('sweeps');
    await eventually('both runs are listed', async () => (await page.locator('.master tbody tr').count()) === 2);
    await page.locator('.master tbody a').first().click();
    await page.locator('.run table.list tbody tr').first().waitFor();
    const run = await eventually('the run was answered', () => dashboard.answerWith('figures', (result) => result.files));
    const levels = run.modes.flatMap((mode) => mode.levels.map((level) => ({ ...level, mode: mode.title })));
    const titles = await page.locator('.run table.list thead th').allTextContents();
    const rows = await page.locator('.run table.list tbody tr').evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
    assert.equal(rows.length, levels.length);
    levels.forEach((level, i) => {
      assert.equal(rows[i][0], level.mode);
      assertShown(rows[i][1], level.concurrency, 'users');
      for (const figure of run.figures) {
        const column = titles.indexOf(figure.title);
        if (column > 1) assertShown(rows[i][column], level.figures[figure.figure]?.value, `${figure.title} of ${level.mode}`);
      }
    });
    assert.ok((await page.locator('.run figure.plot canvas').count()) >= 4);
    await dashboard.accessible('sweeps');
    await dashboard.fits('sweeps');
    for (const [name, begins] of [['Markdown', '#'], ['JSON', '{'], ['CSV', '']]) {
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name, exact: true }).click()]);
      const text = readFileSync(await download.path(), 'utf8');
      assert.ok(text.length > 100 && text.startsWith(begins), `${name}: ${text.slice(0, 80)}`);
    }
    const [svg] = await Promise.all([page.waitForEvent('download'), page.locator('.plot-links a').first().click()]);
    assert.match(readFileSync(await svg.path(), 'utf8'), /<svg/);
    const [png] = await Promise.all([page.waitForEvent('download'), page.locator('.plot-links button').first().click()]);
    assert.equal(readFileSync(await png.path()).subarray(1, 4).toString(), 'PNG');
    await page.locator('#compare-run').selectOption({ index: 1 });
    await page.locator('caption').waitFor();
    const compared = await eventually('the comparison was answered', () => dashboard.answerWith('candidate'));
    assert.equal(await page.locator('.run table.list').first().locator('tbody tr').count(), compared.levels.length);
    await page.getByRole('button', { name: /over time$/ }).first().click();
    await page.locator('.level canvas').first().waitFor();
    const level = await eventually('the level was answered', () => dashboard.answerWith('worker_t_s'));
    await page.locator('.level-conversations summary').click();
    const conversation = level.conversations.find((candidate) => candidate.turns_list.length > 1);
    await page.locator('.level-conversations').getByRole('button', { name: conversation.conversation, exact: true }).click();
    assert.deepEqual(await page.locator('.level-conversations [data-figure="worker"]').allTextContents(), conversation.turns_list.map((turn) => turn.worker ?? '–'));
    await dashboard.accessible('a level');
    assert.ok(read(await page.locator('.level .note').textContent().then((text) => text.replace('Measured from ', ''))) !== null);
    dashboard.noProblems();
    await dashboard.close();
  },
};

try {
  await scenarios[scenario]();
} catch (error) {
  const refused = (opened?.received.reply ?? []).filter((reply) => !reply.ok).slice(-3);
  console.error(`refused by the server: ${JSON.stringify(refused)}; told: ${await opened?.page.locator('.told').textContent().catch(() => '')}; problems: ${JSON.stringify(opened?.problems)}`);
  throw error;
}
process.stdout.write('passed\n');
process.exit(0);
