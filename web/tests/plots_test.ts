import assert from "node:assert/strict";
import test from "node:test";
import { type Column, Decimator, lowerBound } from "../src/plots/decimate.ts";
import { apart, fitting, spread } from "../src/plots/labels.ts";
import { sparkPath } from "../src/plots/sparkline.ts";
import { Series } from "../src/series.ts";

function decimate(times: Column, columns: Column[], from: number, to: number, slots: number) {
  return new Decimator().picture(times, columns, from, to, slots, 1);
}

test("a short series is drawn as it is, holes as holes", () => {
  const picture = decimate([1, 2, 3, 4], [[5, NaN, 7, 8]], 0, 10, 100);
  assert.deepEqual(picture, { x: [1, 2, 3, 4], columns: [[5, null, 7, 8]] });
});

test("of a long series every peak and every trough stays", () => {
  const seed = Number(process.env["SEED"] ?? Date.now() % 100_000);
  let state = seed;
  const random = () => (state = (state * 1_103_515_245 + 12_345) % 2_147_483_648) / 2_147_483_648;
  for (let round = 0; round < 20; round++) {
    const times = Float64Array.from({ length: 5000 }, (_, i) => 1000 + i);
    const values = Float64Array.from(times, () => random());
    const high = Math.floor(random() * 5000);
    values[high] = 9;
    values[(high + 1700) % 5000] = -9;
    const { x, columns } = decimate(times, [values], 1000, 6000, 200);
    assert.ok(x.length <= 2 * 203, `seed ${seed}`);
    assert.ok(columns[0]!.includes(9) && columns[0]!.includes(-9), `seed ${seed}`);
    assert.ok(x.every((time, i) => i === 0 || time > x[i - 1]!), `seed ${seed}`);
  }
});

test("a moved window keeps the slots where they were", () => {
  const times = Float64Array.from({ length: 9000 }, (_, i) => i);
  const values = Float64Array.from(times, (t) => t % 97);
  const one = decimate(times, [values], 0, 8000, 100);
  const other = decimate(times, [values], 1, 8001, 100);
  const shared = one.x.filter((time) => other.x.includes(time));
  assert.ok(shared.length >= one.x.length - 4, `${shared.length} of ${one.x.length}`);
});

test("what is kept of earlier pictures changes none", () => {
  const times = Float64Array.from({ length: 20_000 }, (_, i) => i + (i > 9000 ? 777 : 0));
  const values = Float64Array.from(times, (t) => (t % 1000 > 900 ? NaN : (t * 7919) % 1013));
  const kept = new Decimator();
  for (let to = 8000; to < 20_000; to += 333) {
    const now = lowerBound(times, to);
    assert.deepEqual(kept.picture(times.subarray(0, now), [values.subarray(0, now)], to - 8000, to, 150, 1), decimate(times.subarray(0, now), [values.subarray(0, now)], to - 8000, to, 150), `to ${to}`);
  }
  const other = Float64Array.from(values, (value) => value + 1);
  assert.deepEqual(kept.picture(times, [other], 12_000, 20_000, 150, 2), decimate(times, [other], 12_000, 20_000, 150));
});

test("only the window is drawn, and the sample before it", () => {
  const picture = decimate([1, 2, 3, 4, 5, 6], [[1, 2, 3, 4, 5, 6]], 3, 4, 100);
  assert.deepEqual(picture.x, [2, 3, 4]);
});

test("lowerBound", () => {
  assert.equal(lowerBound([], 5), 0);
  assert.equal(lowerBound([1, 3, 5], 3), 1);
  assert.equal(lowerBound([1, 3, 5], 4), 2);
  assert.equal(lowerBound([1, 3, 5], 9), 3);
});

test("labels keep their order, their distance and the plot's borders", () => {
  const at = (...ys: number[]) => spread(ys.map((y) => ({ text: String(y), colour: "", y })), 10, 0, 100).map((label) => [label.text, label.y]);
  assert.deepEqual(at(50, 20), [["20", 20], ["50", 50]]);
  assert.deepEqual(at(50, 52, 54), [["50", 50], ["52", 60], ["54", 70]]);
  assert.deepEqual(at(99, 98, 97), [["97", 80], ["98", 90], ["99", 100]]);
  assert.deepEqual(at(-5), [["-5", 0]]);
});

test("a sparkline breaks where nothing is known", () => {
  const times = Float64Array.from({ length: 60 }, (_, i) => i);
  const values = Float32Array.from(times, (t) => (t >= 20 && t < 30 ? NaN : 1));
  assert.equal(sparkPath(times, values, 0, 60).split("M").length - 1, 2);
  assert.equal(sparkPath(times, new Float32Array(60).fill(NaN), 0, 60), "");
});

test("a series keeps its newest samples and takes none twice", () => {
  const series = new Series(100);
  for (let t = 0; t < 1000; t++) series.append(t, { a: t });
  series.append(999, { a: 5 });
  assert.ok(series.length >= 100 && series.length <= 125);
  assert.equal(series.times[series.length - 1], 999);
  assert.equal(series.last("a"), 999);
  assert.equal(series.column("a")[0], series.times[0]);
});

test("a column that comes later is not known before", () => {
  const series = new Series(10);
  series.append(1, { a: 1 });
  series.append(2, { b: 2 });
  assert.deepEqual([...series.column("b")], [NaN, 2]);
  assert.deepEqual([...series.column("a")], [1, NaN]);
});

test("names that are long gone have no column", () => {
  const series = new Series(100);
  series.derive("twice", (row) => 2 * row("a"));
  for (let t = 0; t < 5000; t++) series.append(t, { a: t, [`worker-${Math.floor(t / 50)}`]: 1 });
  assert.ok(series.names.length <= 2 + 4, String(series.names.length));
  assert.equal(series.last("worker-99"), 1);
  assert.ok([...series.column("worker-3")].every(Number.isNaN));
  assert.equal(series.last("twice"), 9998);
  series.clear();
  assert.deepEqual(series.names, []);
  series.append(6000, { a: 1 });
  assert.deepEqual([series.last("a"), series.last("twice")], [1, 2]);
});

test("a name that has no room is cut, visibly", () => {
  const widthOf = (text: string) => 7 * text.length;
  assert.equal(fitting("KV cache-aware", 98, widthOf), "KV cache-aware");
  assert.equal(fitting("KV cache-aware", 97, widthOf), "KV cache-awa…");
  assert.equal(fitting("KV cache-aware", 1, widthOf), "K…");
});

test("numbers of levels that are close together do not cover each other", () => {
  assert.deepEqual(apart([0, 10, 20, 60, 100], [14, 14, 14, 14, 14], 6), [true, false, true, true, true]);
  assert.deepEqual(apart([0, 1, 2], [14, 14, 14], 6), [false, false, true]);
  assert.deepEqual(apart([], [], 6), []);
});
