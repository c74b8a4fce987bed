import assert from "node:assert/strict";
import test from "node:test";
import { liveHistory } from "../src/protocol/answers.ts";
import { parseMessage } from "../src/protocol/messages.ts";
import { baselineColumn, Store, workerColumn } from "../src/store.ts";
import * as made from "./messages.ts";

function apply(store: Store, ...messages: unknown[]): void {
  for (const message of messages) {
    const parsed = parseMessage(JSON.stringify(message));
    assert.ok(parsed, "a message of a known type");
    store.apply(parsed);
  }
}

function begun(...messages: unknown[]): Store {
  const store = new Store();
  apply(store, made.hello(), made.baseline(), made.events(), ...messages);
  return store;
}

test("the newest sample is what the views show", () => {
  const store = begun(made.sample(10), made.sample(11));
  assert.equal(store.sample?.t_ms, made.NOW_MS + 11_000);
  assert.equal(store.live.length, 2);
  assert.ok(Math.abs(store.live.last("ttft_p95_ms")! - made.live(11)["ttft_p95_ms"]!) < 1e-3);
  assert.equal(store.running(), true);
});

test("the baseline's column follows the load at each sample, interpolated between levels", () => {
  const store = begun(made.sample(89), made.sample(90));
  const column = store.live.column(baselineColumn("ttft_p95_ms"));
  assert.ok(Math.abs(column[0]! - (60 + 12 * 2.4)) < 1e-3);
  assert.ok(Math.abs(column[1]! - (60 + 30 * 2.4)) < 1e-3);
});

test("another mode of the baseline changes the column of the past too", () => {
  const store = begun(made.sample(89));
  assert.equal(store.baselineMode, "round_robin");
  store.setBaselineMode("kv");
  assert.ok(Math.abs(store.live.column(baselineColumn("ttft_p95_ms"))[0]! - (60 + 12 * 2.4 * 0.15)) < 1e-3);
});

test("without a load the baseline is not known, not zero", () => {
  const idle = { ...made.sample(1).load, state: "idle", concurrency: null };
  const store = begun(made.sample(1, { load: idle, baseline: null }));
  assert.ok(Number.isNaN(store.live.column(baselineColumn("ttft_p95_ms"))[0]));
  assert.equal(store.baselineNow(), null);
  assert.equal(store.running(), false);
});

test("unknown figures are holes, not zeros", () => {
  const store = begun(made.sample(1, { live: { ...made.live(1), ttft_p95_ms: null } }));
  assert.equal(store.live.last("ttft_p95_ms"), null);
  assert.equal(store.sample?.live["ttft_p95_ms"], undefined);
});

test("a server that started anew makes the page forget", () => {
  const store = begun(made.sample(1), made.sample(2));
  apply(store, made.hello({ server_id: "server-2" }));
  assert.equal(store.live.length, 0);
  assert.equal(store.sample, null);
  assert.equal(store.events.length, 0);
});

test("the same server keeps what the page has", () => {
  const store = begun(made.sample(1), made.sample(2));
  apply(store, made.hello());
  assert.equal(store.live.length, 2);
});

test("history: the finest where there is some, the coarser before, and what came meanwhile stays", () => {
  const store = begun(made.sample(200));
  const read = (from: number, to: number, step: number) => liveHistory(made.history(from, to, step), "history");
  store.takeHistory([read(0, 199, 60), read(150, 199, 1), read(90, 199, 10)]);
  const seconds = [...store.live.times].map((time) => Math.round(time - made.NOW_MS / 1000));
  assert.deepEqual(seconds.slice(0, 10), [0, 60, 90, 100, 110, 120, 130, 140, 150, 151]);
  assert.equal(seconds[seconds.length - 1], 200);
  assert.equal(new Set(seconds).size, seconds.length);
  assert.deepEqual(seconds, [...seconds].sort((a, b) => a - b));
});

test("the past does not begin before the server did", () => {
  const store = begun();
  const tier = (from: number, step_s: number, count: number) => ({ of: "live", step_s, t_ms: Array.from({ length: count }, (_, i) => made.NOW_MS + 1000 * (from + i * step_s)), series: new Map([["imbalance", Array.from({ length: count }, () => 1.5)]]) });
  // Begun 28 s into a minute; its coarser steps begin before that.
  store.takeHistory([tier(28, 1, 40), tier(20, 10, 5), tier(0, 60, 2)]);
  assert.equal(store.live.times[0]! - made.NOW_MS / 1000, 28);
  assert.equal(store.live.length, 40);
});

test("where seconds are missing the line breaks", () => {
  const store = begun(made.sample(1), made.sample(2), made.sample(30));
  assert.equal(store.live.length, 4);
  assert.ok(Number.isNaN(store.live.column("ttft_p95_ms")[2]));
});

test("samples that the server skipped are counted", () => {
  const store = begun(made.sample(1), made.sample(4));
  assert.equal(store.skipped, 2);
});

test("events come once, in order, and at most 512", () => {
  const store = begun(made.events());
  assert.deepEqual(store.events.map((event) => event.seq), [1, 2, 3]);
  const many = Array.from({ length: 700 }, (_, i) => ({ ...made.events().events[0]!, seq: 10 + i }));
  apply(store, { type: "events", events: many });
  assert.equal(store.events.length, 512);
  assert.equal(store.events[511]!.seq, 709);
});

test("a day and more of samples stays bounded", () => {
  const store = begun();
  const message = parseMessage(JSON.stringify(made.sample(0)));
  assert.ok(message?.type === "sample");
  const { sample } = message;
  for (let t = 0; t < 120_000; t++) {
    sample.t_ms = made.NOW_MS + 1000 * t;
    sample.seq = t + 1;
    store.apply(message);
  }
  assert.ok(store.live.length >= 86_400 && store.live.length <= 108_000, String(store.live.length));
  assert.ok(store.live.bytes < 24 * 1024 * 1024, String(store.live.bytes));
  assert.ok(store.workers.length <= 2250);
  assert.equal(store.workers.column(workerColumn("worker-1", "slots_used")).length, store.workers.length);
});
