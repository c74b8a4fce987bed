// A figure over concurrency: a line per mode with the band of its 95 % intervals; modes of another run beside them, dashed.
import uPlot from "uplot";
import { h, setAttribute, setText } from "../dom.ts";
import { colour, onThemeChange } from "../theme.ts";
import { FONT, numberAxis } from "./axes.ts";
import { apart, drawLabels, type EdgeLabel, spread, widest } from "./labels.ts";

export interface CurvePoint {
  x: number;
  value: number | null;
  low: number | null;
  high: number | null;
}

export interface Curve {
  name: string;
  colour: string;
  dash?: number[];
  points: readonly CurvePoint[];
}

const HEIGHT = 230;
const LEAST_LABEL_WIDTH = 60;
/** Of the plot's width, so that long names leave the lines their room. */
const MOST_LABEL_SHARE = 0.4;
/** Between a line's end and its name. */
const LABEL_GAP = 6;

export class CurvePlot {
  readonly element: HTMLElement;
  readonly #readout = h("span", { class: "plot-readout" });
  readonly #box = h("div", { class: "plot-canvas", role: "img" });
  readonly #title = h("span", { class: "plot-title" });
  readonly #observer = new ResizeObserver(() => this.#draw());
  readonly #forgetTheme = onThemeChange(() => this.#plot?.redraw(false, true));
  #plot: uPlot | undefined;
  #curves: readonly Curve[] = [];
  #text: (value: number) => string = String;
  #axisText: (value: number) => string = String;

  constructor(title: string) {
    setText(this.#title, title);
    this.element = h("figure", { class: "plot" }, h("figcaption", { class: "plot-heading" }, this.#title, this.#readout), this.#box);
    this.#observer.observe(this.#box);
  }

  /** Who takes its element from the page calls this: page, theme and uPlot's own listeners would keep the canvas. */
  destroy(): void {
    this.#observer.disconnect();
    this.#forgetTheme();
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  show(curves: readonly Curve[], text: (value: number) => string, axisText: (value: number) => string): void {
    this.#curves = curves;
    this.#axisText = axisText;
    this.#text = text;
    setAttribute(this.#box, "aria-label", `${this.#title.textContent ?? ""}: ${curves.map((curve) => `${curve.name} ${curve.points.map((point) => `${point.value === null ? "–" : text(point.value)} at ${point.x}`).join(", ")}`).join("; ")}`);
    this.#draw();
  }

  #draw(): void {
    const width = this.#box.clientWidth;
    if (width === 0) return;
    this.#plot?.destroy();
    const xs = [...new Set(this.#curves.flatMap((curve) => curve.points.map((point) => point.x)))].sort((a, b) => a - b);
    const pick = (curve: Curve, key: "value" | "low" | "high") => xs.map((x) => curve.points.find((point) => point.x === x)?.[key] ?? null);
    const data = [xs, ...this.#curves.flatMap((curve) => [pick(curve, "low"), pick(curve, "high"), pick(curve, "value")])] as uPlot.AlignedData;
    this.#plot = new uPlot(this.#options(width, xs), data, this.#box);
  }

  #options(width: number, xs: readonly number[]): uPlot.Options {
    const spanGaps = true;  // a level that one curve lacks is no hole in it
    const invisible = { stroke: "transparent", width: 0, points: { show: false }, spanGaps };
    const series = this.#curves.flatMap((curve): uPlot.Series[] => [
      { ...invisible }, { ...invisible },
      { label: curve.name, stroke: () => colour(curve.colour), width: 2, spanGaps, ...(curve.dash ? { dash: curve.dash } : {}), points: { show: true, size: 5, fill: () => colour(curve.colour) } },
    ]);
    const step = xs.length > 1 ? (xs[xs.length - 1]! - xs[0]!) * 0.03 : 1;
    return {
      width, height: HEIGHT, padding: [12, this.#labelWidth(width), 0, 0], legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      scales: { x: { time: false, range: [(xs[0] ?? 0) - step, (xs[xs.length - 1] ?? 1) + step] }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [{ ...numberAxis("x", String, 26), grid: { show: false }, splits: () => [...xs], values: levelNames, border: { show: true, stroke: () => colour("--rule"), width: 1 } }, numberAxis("y", this.#axisText)],
      series: [{}, ...series],
      bands: this.#curves.map((curve, k) => ({ series: [3 * k + 2, 3 * k + 1] as [number, number], fill: () => `${colour(curve.colour)}22` })),
      hooks: { draw: [(plot) => this.#names(plot)], setCursor: [(plot) => this.#read(plot)] },
    };
  }

  #labelWidth(width: number): number {
    const wanted = widest(this.#curves.map((curve) => curve.name), FONT) + 2 * LABEL_GAP;
    return Math.ceil(Math.min(Math.max(wanted, LEAST_LABEL_WIDTH), MOST_LABEL_SHARE * width));
  }

  #names(plot: uPlot): void {
    const ratio = window.devicePixelRatio;
    const right = plot.bbox.left + plot.bbox.width;
    const labels = this.#curves.flatMap((curve): EdgeLabel[] => {
      const last = [...curve.points].reverse().find((point) => point.value !== null);
      return last ? [{ text: curve.name, colour: colour(curve.colour), y: plot.valToPos(last.value!, "y", true) }] : [];
    });
    drawLabels(plot.ctx, spread(labels, 13 * ratio, plot.bbox.top, plot.bbox.top + plot.bbox.height), right + LABEL_GAP * ratio, plot.ctx.canvas.width - right - LABEL_GAP * ratio, FONT.replace("11px", `${11 * ratio}px`));
  }

  #read(plot: uPlot): void {
    const index = plot.cursor.idx;
    const x = index === null || index === undefined ? undefined : plot.data[0][index];
    if (x === undefined || (plot.cursor.left ?? -1) < 0) {
      setText(this.#readout, "");
      return;
    }
    const values = this.#curves.map((curve) => {
      const point = curve.points.find((candidate) => candidate.x === x);
      if (!point || point.value === null) return `${curve.name} –`;
      const interval = point.low !== null && point.high !== null ? ` (${this.#text(point.low)} to ${this.#text(point.high)})` : "";
      return `${curve.name} ${this.#text(point.value)}${interval}`;
    });
    setText(this.#readout, [`${x} users`, ...values].join("   "));
  }
}

/** Levels are where they were measured, which may be close to each other; each has its mark on the line, but only so many have room for their number. */
function levelNames(plot: uPlot, levels: number[]): string[] {
  const names = levels.map(String);
  const kept = apart(levels.map((level) => plot.valToPos(level, "x")), names.map((name) => widest([name], FONT)), LABEL_GAP);
  return names.map((name, i) => (kept[i] ? name : ""));
}
