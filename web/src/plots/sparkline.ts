// The recent course of one figure, small, without axes.
import { svg, setAttribute } from "../dom.ts";
import { type Column, lowerBound } from "./decimate.ts";

const WIDTH = 120;
const HEIGHT = 28;
const POINTS = 60;

/** Means of at most 60 slots as path commands; "" if nothing is known. Gaps stay gaps. */
export function sparkPath(times: Column, values: Column, from: number, to: number): string {
  const sums = new Float64Array(POINTS);
  const counts = new Uint32Array(POINTS);
  for (let i = lowerBound(times, from); i < times.length && times[i]! <= to; i++) {
    const value = values[i]!;
    if (Number.isNaN(value)) continue;
    const slot = Math.min(POINTS - 1, Math.floor(((times[i]! - from) / (to - from)) * POINTS));
    sums[slot]! += value;
    counts[slot]!++;
  }
  let most = 0;
  for (let k = 0; k < POINTS; k++) if (counts[k]! > 0) most = Math.max(most, sums[k]! / counts[k]!);
  let path = "";
  let pen = false;
  for (let k = 0; k < POINTS; k++) {
    if (counts[k] === 0) {
      pen = false;
      continue;
    }
    const x = ((k + 0.5) / POINTS) * WIDTH;
    const y = HEIGHT - 2 - (most > 0 ? (sums[k]! / counts[k]! / most) * (HEIGHT - 5) : 0);
    path += `${pen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = true;
  }
  return path;
}

export class Sparkline {
  readonly element: SVGElement;
  readonly #path: SVGPathElement;
  #drawn = "";

  constructor() {
    this.#path = svg("path", { class: "spark-line" });
    this.element = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.#path);
  }

  /** Drawn anew when something has moved by a slot's width, not each second. `version` as of a series. */
  show(times: Column, values: Column, from: number, to: number, version: number): void {
    const key = `${version} ${to - from} ${Math.floor((to * POINTS) / (to - from))}`;
    if (key === this.#drawn) return;
    this.#drawn = key;
    setAttribute(this.#path, "d", sparkPath(times, values, from, to));
  }
}
