import assert from "node:assert/strict";
import test from "node:test";
import { atConcurrency, difference, differenceText, grade, type Situation, verdict, verdictDetail } from "../src/baseline.ts";

const LEVELS = [
  { concurrency: 40, figures: { ttft_p95_ms: 400, tpot_p50_ms: 20 } },
  { concurrency: 60, figures: { ttft_p95_ms: 800 } },
];

test("a level of the baseline is itself", () => {
  assert.deepEqual(atConcurrency(LEVELS, 40), { figures: LEVELS[0]!.figures, interpolated: false, between: [40, 40] });
});

test("between two levels it is linear, of the figures that both have", () => {
  assert.deepEqual(atConcurrency(LEVELS, 45), { figures: { ttft_p95_ms: 500 }, interpolated: true, between: [40, 60] });
});

test("outside of the levels nothing is known", () => {
  assert.equal(atConcurrency(LEVELS, 39), null);
  assert.equal(atConcurrency(LEVELS, 61), null);
  assert.equal(atConcurrency([], 40), null);
  assert.equal(atConcurrency(LEVELS, NaN), null);
});

test("SLOs grade: amber from the warning on, red above the limit", () => {
  const slos = [{ figure: "ttft_p95_ms", limit: 600, warn: 480, is_least: false }, { figure: "output_tokens_per_s", limit: 2000, warn: 2500, is_least: true }];
  assert.equal(grade(slos, "output_tokens_per_s", 2501), "good");
  assert.equal(grade(slos, "output_tokens_per_s", 2500), "warn");
  assert.equal(grade(slos, "output_tokens_per_s", 2000), "warn");
  assert.equal(grade(slos, "output_tokens_per_s", 1999), "bad");
  assert.equal(grade(slos, "ttft_p95_ms", 479), "good");
  assert.equal(grade(slos, "ttft_p95_ms", 480), "warn");
  assert.equal(grade(slos, "ttft_p95_ms", 600), "warn");
  assert.equal(grade(slos, "ttft_p95_ms", 601), "bad");
  assert.equal(grade(slos, "ttft_p50_ms", 601), "none");
  assert.equal(grade(slos, "ttft_p95_ms", undefined), "none");
});

test("differences in words", () => {
  assert.equal(differenceText(difference(59, 100)), "41 % below");
  assert.equal(differenceText(difference(150, 100)), "50 % above");
  assert.equal(differenceText(difference(400, 100)), "4.0 times");
  assert.equal(differenceText(difference(100.1, 100)), "equal");
  assert.equal(differenceText(difference(null, 100)), "–");
  assert.equal(differenceText(difference(5, 0)), "–");
});

const SITUATION: Situation = {
  running: true, mode: "kv", baselineMode: "round_robin", concurrency: 24, now: 59, then: 100, figure: "TTFT p95", at: { figures: {}, interpolated: true, between: [20, 30] },
};

function sentence(changes: Partial<Situation>): string | null {
  const found = verdict({ ...SITUATION, ...changes });
  return found && `${found.tone}: ${found.lead} ${found.strong} ${found.rest}`;
}

test("the sentence says how much, of what, where", () => {
  assert.equal(sentence({}), "better: KV-aware routing: TTFT p95 is 41 % below the round-robin baseline at 24 users");
  assert.equal(sentence({ now: 120 }), "worse: KV-aware routing: TTFT p95 is 20 % above the round-robin baseline at 24 users");
  assert.equal(sentence({ now: 101 }), "same: KV-aware routing: TTFT p95 is as in the baseline of round-robin routing at 24 users");
  assert.equal(sentence({ concurrency: 1 }), "better: KV-aware routing: TTFT p95 is 41 % below the round-robin baseline at 1 user");
});

test("a mode against its own baseline is no gain", () => {
  assert.equal(sentence({ mode: "round_robin" }), "same: Round-robin routing: TTFT p95 is 41 % below the round-robin baseline at 24 users");
});

test("without a load, a figure or a baseline there is no sentence", () => {
  assert.equal(sentence({ running: false }), null);
  assert.equal(sentence({ now: null }), null);
  assert.equal(sentence({ then: null }), null);
  assert.equal(sentence({ concurrency: null }), null);
});

test("the detail says that the baseline is interpolated, and between what", () => {
  assert.equal(verdictDetail(SITUATION), "59.0 ms now, 100 ms in the baseline (interpolated between 20 and 30 users)");
  assert.equal(verdictDetail({ ...SITUATION, at: { figures: {}, interpolated: false, between: [24, 24] } }), "59.0 ms now, 100 ms in the baseline");
});
