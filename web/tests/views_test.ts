import assert from "node:assert/strict";
import test from "node:test";
import { changeText, changeTitle, tableFigures } from "../src/compared.ts";
import { UNKNOWN } from "../src/format.ts";
import { parseMessage, type Worker } from "../src/protocol/messages.ts";
import { comparison as comparisonReader, run as runReader } from "../src/protocol/answers.ts";
import { conversation as conversationReader, decisionsMessage } from "../src/protocol/topics.ts";
import { gatewayText } from "../src/store.ts";
import { why } from "../src/views/candidates.ts";
import { gainText } from "../src/views/chat.ts";
import { sliderMost } from "../src/views/controls.ts";
import { progressText } from "../src/views/sweep_progress.ts";
import { CELLS } from "../src/views/worker_cells.ts";
import * as made from "./messages.ts";

function worker(changes: Record<string, unknown>): Worker {
  const message = parseMessage(JSON.stringify({ ...made.sample(1), workers: [made.worker("worker-0", 1, changes)] }));
  assert.ok(message?.type === "sample" && message.sample.workers);
  return message.sample.workers[0]!;
}

const NOTHING = Object.fromEntries(Object.keys(made.worker("worker-0", 0)).map((key) => [key, null]));

test("of a worker that does not answer every cell is a dash, with a reason", () => {
  const silent = worker({ ...NOTHING, name: "silent", state: "unhealthy", answers: false });
  for (const cell of CELLS) {
    const { text, title, share } = cell.show(silent);
    assert.equal(text, UNKNOWN, cell.title);
    assert.ok(title && title.length > 10, `${cell.title} says why`);
    assert.equal(share, undefined, `${cell.title} has no bar`);
  }
});

test("a real vLLM: what it tells is shown, what it does not is a dash with the reason, nothing is zero", () => {
  const vllm = worker({ ...NOTHING, name: "vllm", state: "healthy", answers: true, slots_used: 3, queue: 0, kv_usage_pct: 43.2, hit_rate_pct: 61, in_flight: 3, index_trust: "exact", indexed_blocks: 812, last_event_s: 0.4 });
  const shown = Object.fromEntries(CELLS.map((cell) => [cell.title, cell.show(vllm)]));
  assert.equal(shown["Batch slots"]!.text, `3 of ${UNKNOWN}`);
  assert.match(shown["Batch slots"]!.title!, /size of its batch is not known/);
  assert.equal(shown["KV blocks"]!.text, "43.2 %");
  assert.ok(Math.abs(shown["KV blocks"]!.share! - 0.432) < 1e-9);
  assert.equal(shown["Queue"]!.text, "0");
  assert.equal(shown["Evictions"]!.text, UNKNOWN);
  assert.match(shown["Evictions"]!.title!, /does not tell/);
  assert.equal(shown["Index"]!.text, "exact");
});

test("a full batch and scarce memory turn amber and red", () => {
  const tone = (changes: Record<string, unknown>, title: string) => CELLS.find((cell) => cell.title === title)!.show(worker(changes)).tone;
  assert.equal(tone({ slots_used: 64, slots: 64 }, "Batch slots"), "warn");
  assert.equal(tone({ slots_used: 63, slots: 64 }, "Batch slots"), undefined);
  assert.equal(tone({ kv_blocks_used: 9000, kv_blocks: 10_000 }, "KV blocks"), "warn");
  assert.equal(tone({ kv_blocks_used: 9800, kv_blocks: 10_000 }, "KV blocks"), "bad");
  assert.equal(tone({ queue: 1 }, "Queue"), "warn");
});

test("why this worker, in a sentence", () => {
  const { decisions } = decisionsMessage(made.decisions(), "");
  const decision = decisions[3]!;
  assert.equal(why(decision), "worker-0 for 95.0 ms against 305 ms on worker-1, the next best: it holds 3,328 of the prompt's 3,456 tokens, and 9 requests under way there (10 requests on worker-1).");
  assert.match(why({ ...decision, mode: "round_robin" }), /^worker-0 by round-robin routing; .* which this mode does not look at\.$/);
  assert.match(why({ ...decision, reason: "safety_net" }), /fallback rule/);
  assert.match(why({ ...decision, candidates: decision.candidates.slice(0, 1) }), /only worker/);
});

test("what the cache did for turn 2", () => {
  const conversation = conversationReader(made.conversation("0-1"), "");
  assert.equal(gainText(conversation), "Turn 2's first token came 75 % sooner than turn 1's, on the same worker, worker-1, with 83 % of its prompt cached.");
  const [first, second] = conversation.turns_list;
  assert.equal(gainText({ ...conversation, turns_list: [first!] }), "");
  assert.match(gainText({ ...conversation, turns_list: [first!, { ...second!, worker: "worker-2" }] }), /, on worker-2 instead of worker-1,/);
  assert.equal(gainText({ ...conversation, turns_list: [first!, { ...second!, ttft_ms: null }] }), "");
});

test("a slider has a hand's reach, and never more than the server allows", () => {
  assert.equal(sliderMost(4096, 12, []), 48);
  assert.equal(sliderMost(4096, 36, [12, 24, 36]), 56);
  assert.equal(sliderMost(4096, 300, []), 500);
  assert.equal(sliderMost(16, 12, []), 16);
});

test("a sweep's progress in words", () => {
  const message = parseMessage(JSON.stringify(made.sweep()));
  assert.ok(message?.type === "sweep");
  assert.match(progressText(message.sweep), /^41 %, 2 of 6 levels, measuring round-robin at 36; ends about \d\d:\d\d:\d\d$/);
  assert.equal(progressText({ ...message.sweep, state: "failed", problem: "no port" }), "Failed after 2 of 6 levels: no port");
  assert.match(progressText({ ...message.sweep, estimated_end_ms: null }), /end not known yet$/);
});

test("a run's tables have what it has of the figures that matter, the hit rate among them", () => {
  const { figures } = runReader(made.run("run-0"), "");
  assert.deepEqual(tableFigures(figures).map((figure) => figure.figure), ["ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "itl_p95_ms", "output_tokens_per_s", "hit_rate_pct"]);
});

test("a change is in percent, of percentages in points, and says nothing more than is known", () => {
  const { figures } = runReader(made.run("run-0"), "");
  const of = (key: string) => figures.find((figure) => figure.figure === key)!;
  const [level] = comparisonReader(made.compare("run-1", "run-0"), "").levels;
  const [p50, p95, hits] = ["ttft_p50_ms", "ttft_p95_ms", "hit_rate_pct"].map((key) => level!.figures.get(key));
  assert.equal(changeText(of("ttft_p50_ms"), p50), "−15.6 %");
  assert.equal(changeTitle(of("ttft_p50_ms"), p50), "32.0 ms → 27.0 ms, 95 % interval of the change −17.2 to −14.1: better");
  assert.equal(changeText(of("hit_rate_pct"), hits), "+2.3 points");
  assert.match(changeTitle(of("ttft_p95_ms"), p95), /^120 ms → 131 ms; no interval is known/);
  const refused = { ...p50!, change: null, low: null, high: null, verdict: "open" };
  assert.equal(changeText(of("ttft_p50_ms"), refused), UNKNOWN);
  assert.match(changeTitle(of("ttft_p50_ms"), refused), /^32.0 ms → 27.0 ms; not compared/);
});

test("a gateway that does not answer is told on every view", () => {
  assert.equal(gatewayText(null), "");
  assert.equal(gatewayText({ url: "http://g", reached: true, problem: "" }), "");
  assert.match(gatewayText({ url: "http://g", reached: false, problem: "connection refused" }), /^The gateway http:\/\/g does not answer: connection refused\. /);
});
