// One measured level of a stored run over time.
import { figureKey, QUANTITIES } from "../baseline.ts";
import type { Context } from "../context.ts";
import { h, setText } from "../dom.ts";
import { axisMilliseconds, decimal, duration, milliseconds } from "../format.ts";
import { type Line, TimePlot } from "../plots/time_plot.ts";
import { level as levelReader, type LevelOverTime } from "../protocol/answers.ts";
import { workerColour } from "../theme.ts";
import { LevelConversations } from "./level_conversations.ts";

const MOST_LINES = 16;
/** Counts what was drawn: each is another series. */
let drawn = 0;

function column(values: readonly (number | null)[] | undefined, length: number): Float64Array {
  return Float64Array.from({ length }, (_, i) => values?.[i] ?? NaN);
}

export class LevelView {
  readonly element: HTMLElement;
  readonly #title = h("h3", {});
  readonly #note = h("p", { class: "note" });
  readonly #plots: { key: "ttft" | "itl" | "latency" | "tpot"; plot: TimePlot }[];
  readonly #workers: TimePlot;
  readonly #conversations = new LevelConversations();
  readonly #body: HTMLElement;
  #wanted = "";

  constructor(private readonly context: Context) {
    this.#plots = QUANTITIES.map((quantity) => ({
      key: quantity.key,
      plot: new TimePlot({ title: quantity.title, text: milliseconds, axisText: axisMilliseconds, height: 170, labelWidth: 44, relativeTime: true, lines: [{ name: "p50", colour: "--live-soft" }, { name: "p95", colour: "--live", width: 2 }] }),
    }));
    this.#workers = new TimePlot({ title: "Requests under way per worker", lines: [], text: decimal, labelWidth: 88, height: 170, relativeTime: true });
    this.#body = h("div", { class: "level-body" }, h("div", { class: "plots" }, ...this.#plots.map((entry) => entry.plot.element), this.#workers.element), this.#conversations.element);
    this.element = h("section", { class: "level", "aria-label": "One level over time" }, this.#title, this.#note, this.#body);
    this.close();
  }

  close(): void {
    this.#wanted = "";
    this.element.hidden = true;
  }

  open(run: string, level: number, title: string): void {
    const wanted = `${run} ${level}`;
    this.#wanted = wanted;
    this.element.hidden = false;
    setText(this.#title, `${title}, over time`);
    setText(this.#note, "Reading its turns …");
    this.#body.hidden = true;
    this.context.connection.ask("level", { run, level }, levelReader).then(
      (answer) => {
        if (this.#wanted === wanted) this.#show(answer, title);
      },
      (error: Error) => {
        if (this.#wanted === wanted) setText(this.#note, error.message);
      },
    );
  }

  #show(level: LevelOverTime, title: string): void {
    this.#body.hidden = false;
    setText(this.#title, `${title}, over time`);
    setText(this.#note, level.measure_from_s !== null && level.measure_to_s !== null ? `Measured from ${duration(level.measure_from_s)} to ${duration(level.measure_to_s)} of the level.` : "");
    const times = Float64Array.from(level.t_s);
    const window = { version: ++drawn, from: times[0] ?? 0, to: Math.max(times[times.length - 1] ?? 1, 1) };
    const marks = [[level.measure_from_s, "measuring"], [level.measure_to_s, "end"]].flatMap(([time, text]) => (typeof time === "number" ? [{ time, text: String(text) }] : []));
    for (const { key, plot } of this.#plots) {
      // What a stored level is not asked for, the gaps between tokens, is no plot without lines.
      plot.element.hidden = !level.series.has(figureKey(key, "p50")) && !level.series.has(figureKey(key, "p95"));
      if (plot.element.hidden) continue;
      plot.show({ times, columns: [column(level.series.get(figureKey(key, "p50")), times.length), column(level.series.get(figureKey(key, "p95")), times.length)], ...window, marks });
    }
    this.#showWorkers(level, window);
    this.#conversations.show(level.conversations, level.conversations_total ?? level.conversations.length);
    this.element.scrollIntoView({ block: "nearest" });
  }

  #showWorkers(level: LevelOverTime, window: { version: number; from: number; to: number }): void {
    const workers = level.workers && level.worker_t_s ? [...level.workers].slice(0, MOST_LINES) : [];
    this.#workers.element.hidden = workers.length === 0;
    if (workers.length === 0) return;
    const times = Float64Array.from(level.worker_t_s!);
    this.#workers.setLines(workers.map(([name], index): Line => ({ name, colour: workerColour(index), width: 1.75 })));
    this.#workers.show({ times, columns: workers.map(([, columns]) => column(columns.get("in_flight") ?? columns.get("slots_used"), times.length)), ...window });
  }
}
