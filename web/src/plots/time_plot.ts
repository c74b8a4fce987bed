// Lines over time with horizontal references (SLOs), marked instants (changes of the load) and names at the lines' ends.
import uPlot from "uplot";
import { h, setAttribute, setText } from "../dom.ts";
import { axisNumber } from "../format.ts";
import { colour, onThemeChange } from "../theme.ts";
import { FONT, numberAxis, secondsAxis, timeAxis, timeOfDay } from "./axes.ts";
import { type Column, Decimator } from "./decimate.ts";
import { drawLabels, type EdgeLabel, spread } from "./labels.ts";

export interface Line {
  name: string;
  colour: string;  // a custom property
  width?: number;
  dash?: number[];
  /** Steps instead of slopes: for values that hold until they are changed. */
  steps?: boolean;
  /** Not to be named at the edge: only where the plot is read. */
  quiet?: boolean;
}

export interface Reference {
  value: number;
  text: string;
  colour: string;
}

export interface Mark {
  time: number;
  text: string;
}

export interface Frame {
  times: Column;
  columns: readonly Column[];
  from: number;
  to: number;
  /** Of the series: differs when its past has changed. */
  version: number;
  references?: readonly Reference[];
  marks?: readonly Mark[];
  /** Instead of the lines' own names at the edge. */
  names?: readonly string[];
}

export interface TimePlotOptions {
  title: string;
  lines: readonly Line[];
  text: (value: number) => string;
  axisText?: (value: number) => string;
  height?: number;
  /** The top of the scale, for shares. */
  most?: number;
  labelWidth?: number;
  /** Times are seconds from a beginning, not of the day. */
  relativeTime?: boolean;
}

const LABEL_DISTANCE = 13;
/** A reference further above all lines than this is named at the top, not drawn: it would press the lines flat. */
const REFERENCE_REACH = 2.2;

export class TimePlot {
  readonly element: HTMLElement;
  readonly heading: HTMLElement;
  readonly #readout: HTMLElement;
  readonly #canvasBox: HTMLElement;
  readonly #options: TimePlotOptions;
  #lines: readonly Line[];
  #plot: uPlot | undefined;
  #frame: Frame | undefined;
  #top = 1;
  readonly #decimator = new Decimator();

  constructor(options: TimePlotOptions) {
    this.#options = options;
    this.#lines = options.lines;
    this.#readout = h("span", { class: "plot-readout" });
    this.heading = h("figcaption", { class: "plot-heading" }, h("span", { class: "plot-title" }, options.title), this.#readout);
    this.#canvasBox = h("div", { class: "plot-canvas", role: "img", "aria-label": options.title });
    this.element = h("figure", { class: "plot" }, this.heading, this.#canvasBox);
    new ResizeObserver(() => this.#resize()).observe(this.#canvasBox);
    onThemeChange(() => this.#plot?.redraw(false, true));
  }

  /** Another set of lines, such as one per worker when a worker joins. */
  setLines(lines: readonly Line[]): void {
    const same = lines.length === this.#lines.length && lines.every((line, i) => line.name === this.#lines[i]!.name && line.colour === this.#lines[i]!.colour);
    if (same) return;
    this.#lines = lines;
    this.#plot?.destroy();
    this.#plot = undefined;
  }

  show(frame: Frame): void {
    this.#frame = frame;
    this.#draw();
  }

  /** What a screen reader hears of the picture. */
  describe(text: string): void {
    setAttribute(this.#canvasBox, "aria-label", `${this.#options.title}: ${text}`);
  }

  #width(): number {
    return this.#canvasBox.clientWidth;
  }

  #labelWidth(): number {
    return this.#width() < 420 ? Math.min(80, this.#options.labelWidth ?? 80) : this.#options.labelWidth ?? 84;
  }

  #resize(): void {
    if (this.#width() === 0) return;
    if (this.#plot && this.#plot.width !== this.#width()) this.#plot.setSize({ width: this.#width(), height: this.#options.height ?? 190 });
    this.#draw();
  }

  #draw(): void {
    const frame = this.#frame;
    const width = this.#width();
    if (!frame || width === 0) return;
    const slots = Math.max(60, Math.floor(width / 1.5));
    const picture = this.#decimator.picture(frame.times, frame.columns, frame.from, frame.to, slots, frame.version);
    this.#top = this.#scaleTop(picture.columns, frame.references ?? []);
    this.#plot ??= new uPlot(this.#uplotOptions(width), [[], ...this.#lines.map(() => [])] as uPlot.AlignedData, this.#canvasBox);
    setAttribute(this.#canvasBox, "data-top", String(this.#top));  // of the scale, for tests
    this.#plot.batch(() => {
      this.#plot!.setData([picture.x, ...picture.columns] as uPlot.AlignedData, false);
      this.#plot!.setScale("x", { min: frame.from, max: frame.to });
      this.#plot!.setScale("y", { min: 0, max: this.#top });
    });
  }

  #scaleTop(columns: readonly (number | null)[][], references: readonly Reference[]): number {
    if (this.#options.most !== undefined) return this.#options.most;
    let top = 0;
    for (const column of columns) for (const value of column) if (value !== null && value > top) top = value;
    for (const reference of references) if (reference.value > top && reference.value <= top * REFERENCE_REACH) top = reference.value;
    return top > 0 ? top * 1.12 : 1;
  }

  #uplotOptions(width: number): uPlot.Options {
    return {
      width,
      height: this.#options.height ?? 190,
      padding: [18, this.#labelWidth(), 0, 0],
      legend: { show: false },
      cursor: { ...(this.#options.relativeTime ? {} : { sync: { key: "time" } }), drag: { x: false, y: false }, points: { size: 5 }, y: false },
      scales: { x: { time: !this.#options.relativeTime }, y: { auto: false } },
      axes: [this.#options.relativeTime ? secondsAxis() : timeAxis(), numberAxis("y", this.#options.axisText ?? axisNumber)],
      series: [
        {},
        ...this.#lines.map((line): uPlot.Series => ({
          label: line.name,
          stroke: () => colour(line.colour),
          width: line.width ?? 1.5,
          ...(line.dash ? { dash: line.dash } : {}),
          ...(line.steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
          points: { show: false },
        })),
      ],
      hooks: {
        drawClear: [(plot) => this.#drawMarks(plot)],
        draw: [(plot) => this.#drawEdges(plot)],
        setCursor: [(plot) => this.#read(plot)],
      },
    };
  }

  #drawMarks(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = colour("--mark");
    ctx.fillStyle = colour("--soft");
    ctx.lineWidth = ratio;
    ctx.setLineDash([2 * ratio, 3 * ratio]);
    ctx.font = scaled(FONT, ratio);
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    let free = -Infinity;
    for (const mark of this.#frame?.marks ?? []) {
      const x = Math.round(plot.valToPos(mark.time, "x", true)) + 0.5;
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      line(ctx, x, bbox.top, x, bbox.top + bbox.height);
      const room = ctx.measureText(mark.text).width;
      const left = Math.min(x, bbox.left + bbox.width - room);
      if (left < free) continue;  // the line is there, its text would cover the last one's
      ctx.fillText(mark.text, left, bbox.top - 4 * ratio);
      free = left + room + 8 * ratio;
    }
    ctx.restore();
  }

  #drawEdges(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio;
    const right = bbox.left + bbox.width;
    const labels: EdgeLabel[] = [];
    ctx.save();
    ctx.lineWidth = ratio;
    for (const reference of this.#frame?.references ?? []) {
      const above = reference.value > this.#top;
      const y = above ? bbox.top : plot.valToPos(reference.value, "y", true);
      if (!above) {
        ctx.strokeStyle = colour(reference.colour);
        ctx.setLineDash([]);
        line(ctx, bbox.left, y, right, y);
      }
      labels.push({ text: above ? `${reference.text} ↑` : reference.text, colour: colour(reference.colour), y });
    }
    ctx.restore();
    this.#lines.forEach((entry, k) => {
      const value = lastKnown(plot.data[k + 1]!);
      if (value === null || entry.quiet) return;
      labels.push({ text: this.#frame?.names?.[k] ?? entry.name, colour: colour(entry.colour), y: plot.valToPos(value, "y", true) });
    });
    const spreadOut = spread(labels, LABEL_DISTANCE * ratio, bbox.top, bbox.top + bbox.height);
    drawLabels(ctx, spreadOut, right + 6 * ratio, ctx.canvas.width - right - 6 * ratio, scaled(FONT, ratio));
  }

  /** The values under the pointer, in the heading. */
  #read(plot: uPlot): void {
    const index = plot.cursor.idx;
    if (index === null || index === undefined || plot.cursor.left === undefined || plot.cursor.left < 0) {
      setText(this.#readout, "");
      return;
    }
    const time = plot.data[0][index];
    if (time === undefined) return;
    const values = this.#lines.map((entry, k) => {
      const value = plot.data[k + 1]![index];
      return `${entry.name} ${value === null || value === undefined ? "–" : this.#options.text(value)}`;
    });
    const at = this.#options.relativeTime ? `${time.toFixed(0)} s` : timeOfDay(time, true);
    setText(this.#readout, [at, ...values].join("   "));
  }
}

function scaled(font: string, ratio: number): string {
  return font.replace(/^(\d+)px/, (_, size: string) => `${Number(size) * ratio}px`);
}

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function lastKnown(column: ArrayLike<number | null | undefined>): number | null {
  for (let i = column.length - 1; i >= 0; i--) {
    const value = column[i];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}
