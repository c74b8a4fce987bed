import assert from "node:assert/strict";
import test from "node:test";
import { answerMs, pauseMs } from "../src/connection.ts";
import { axisMilliseconds, compact, count, decimal, duration, fromTo, milliseconds, modeName, percent, UNKNOWN } from "../src/format.ts";

test("what is not known is a dash, never 0", () => {
  for (const text of [count, decimal, milliseconds, duration, percent, compact]) {
    assert.equal(text(null), UNKNOWN);
    assert.equal(text(undefined), UNKNOWN);
    assert.equal(text(NaN), UNKNOWN);
  }
});

test("numbers have three digits and their unit", () => {
  assert.equal(milliseconds(27.23), "27.2 ms");
  assert.equal(milliseconds(0), "0.00 ms");
  assert.equal(milliseconds(1240), "1.24 s");
  assert.equal(milliseconds(125_000), "2 min 5 s");
  assert.equal(duration(7500), "2 h 5 min");
  assert.equal(decimal(1234.5), "1,235");
  assert.equal(compact(36_230), "36.2k");
  assert.equal(percent(0.4149, 0), "41 %");
  assert.equal(axisMilliseconds(0), "0");
  assert.equal(axisMilliseconds(2.5), "2.5 ms");
  assert.equal(axisMilliseconds(1500), "1.5 s");
  assert.equal(fromTo(92, 26), "92.0 → 26.0 ms");
  assert.equal(fromTo(1200, 26), "1.20 s → 26.0 ms");
});

test("modes have names for sentences", () => {
  assert.equal(modeName("kv"), "KV-aware");
  assert.equal(modeName("power_of_two"), "power of two");
  assert.equal(modeName("some_other"), "some other");
  assert.equal(modeName(null), UNKNOWN);
});

test("pauses before the next attempt to connect", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 50].map(pauseMs), [500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
});

test("what takes the server minutes is waited for", () => {
  assert.equal(answerMs("history"), 30_000);
  for (const command of ["run", "level", "compare"]) assert.ok(answerMs(command) >= 600_000, command);
});
