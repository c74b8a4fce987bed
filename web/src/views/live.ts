// The first view: the run as it is now against the recorded baseline.
import { difference, differenceText, figureKey, QUANTITIES, type Quantity } from "../baseline.ts";
import type { Context, View } from "../context.ts";
import { h, setText } from "../dom.ts";
import { axisMilliseconds, milliseconds, modeName } from "../format.ts";
import { type Mark, type Reference, TimePlot } from "../plots/time_plot.ts";
import { baselineColumn, type Store } from "../store.ts";
import { ControlsView } from "./controls.ts";
import { TilesView } from "./tiles.ts";
import { VerdictView } from "./verdict.ts";
import { WindowChoice } from "./window_choice.ts";

const MARKED = new Set(["start", "stop", "end", "concurrency", "rate", "mode", "level"]);
const MARK_WORDS: Record<string, string> = { start: "start", stop: "stop", end: "end" };

/** The changes of the load within the window, each a word or two. */
export function marks(store: Store, from: number): Mark[] {
  return store.events.filter((event) => MARKED.has(event.kind) && event.t_ms / 1000 >= from).map((event) => ({ time: event.t_ms / 1000, text: markText(event.kind, event.to, event.text) }));
}

function markText(kind: string, to: string | null, text: string): string {
  if (kind === "mode" && to) return modeName(to);
  if (kind === "concurrency" && to) return `${to} users`;
  if (kind === "rate" && to) return `${to}/s`;
  return MARK_WORDS[kind] ?? text;
}

/** "≈" at the lines of the baseline where they lie between two measured levels. */
const INTERPOLATED = ["baseline p50 ≈", "baseline p95 ≈", "p50", "p95"];

/** A client that was itself late shows its own delays as the server's. */
const LATE_MS = 5;

function clientText(client: { loop_delay_p99_ms: number | null } | null): string {
  const late = client?.loop_delay_p99_ms;
  if (late === null || late === undefined || late < LATE_MS) return "";
  return `The load generator itself is late by up to ${milliseconds(late)} (p99), which is part of the figures.`;
}

class QuantityPlot {
  readonly plot: TimePlot;

  constructor(private readonly quantity: Quantity, title: string, private readonly context: Context) {
    this.plot = new TimePlot({
      title,
      text: milliseconds,
      axisText: axisMilliseconds,
      labelWidth: 92,
      lines: [
        { name: "baseline p50", colour: "--base-soft", width: 1.25, dash: [2, 4] },
        { name: "baseline p95", colour: "--base", width: 1.5, dash: [6, 4] },
        { name: "p50", colour: "--live-soft", width: 1.75 },
        { name: "p95", colour: "--live", width: 2.25 },
      ],
    });
  }

  show(): void {
    const { store, windowS } = this.context;
    const keys = [figureKey(this.quantity, "p50"), figureKey(this.quantity, "p95")] as const;
    const to = Math.max(store.live.lastTime(), 0);
    const { live } = store;
    this.plot.show({
      times: live.times,
      columns: [live.column(baselineColumn(keys[0])), live.column(baselineColumn(keys[1])), live.column(keys[0]), live.column(keys[1])],
      from: to - windowS,
      to,
      version: live.version,
      references: this.#references(keys),
      ...(store.baselineNow()?.interpolated ? { names: INTERPOLATED } : {}),
      marks: marks(store, to - windowS),
    });
    const now = store.sample?.live[keys[1]];
    const then = store.baselineNow()?.figures[keys[1]];
    this.plot.describe(`p50 ${milliseconds(store.sample?.live[keys[0]])}, p95 ${milliseconds(now)}, baseline p95 ${milliseconds(then)}, ${differenceText(difference(now, then))}`);
  }

  #references(keys: readonly string[]): Reference[] {
    return (this.context.store.hello?.slo ?? []).filter((slo) => keys.includes(slo.figure))
      .map((slo) => ({ value: slo.limit, text: `SLO ${slo.figure.includes("p95") ? "p95" : "p50"}`, colour: "--bad" }));
  }
}

export class LiveView implements View {
  readonly element: HTMLElement;
  readonly #verdict: VerdictView;
  readonly #controls: ControlsView;
  readonly #tiles: TilesView;
  readonly #window: WindowChoice;
  readonly #plots: QuantityPlot[];
  readonly #note = h("p", { class: "note" });

  constructor(private readonly context: Context) {
    this.#verdict = new VerdictView(context);
    this.#controls = new ControlsView(context);
    this.#tiles = new TilesView(context);
    this.#window = new WindowChoice(context);
    this.#plots = QUANTITIES.map((quantity) => new QuantityPlot(quantity.key, quantity.title, context));
    this.element = h("div", { class: "view live" },
      this.#verdict.element, this.#controls.element, this.#tiles.element,
      h("section", { class: "card", "aria-label": "Latencies over time" },
        h("div", { class: "card-head" }, h("h2", {}, "Over time"), this.#window.element),
        h("div", { class: "plots" }, ...this.#plots.map((entry) => entry.plot.element)), this.#note));
  }

  show(): void {
    this.#verdict.show();
    this.#controls.show();
    this.#tiles.show();
    this.#window.show();
    for (const plot of this.#plots) plot.show();
    setText(this.#note, this.#legend());
  }

  #legend(): string {
    const { store } = this.context;
    const window = [store.hello ? `Quantiles of the last ${store.hello.window_s} s.` : "", clientText(store.sample?.client ?? null)].filter(Boolean).join(" ");
    if (!store.baseline) return window;
    const at = store.baselineNow();
    const where = at?.interpolated ? `, now interpolated between ${at.between[0]} and ${at.between[1]} users (≈)` : at ? `, measured at ${at.between[0]} users` : "";
    const factor = store.baseline.time_factor !== 1 ? ` Its times are multiplied by ${store.baseline.time_factor} to be those of these workers.` : "";
    return `${window} Dashed: the ${modeName(store.baselineMode)} baseline of ${store.baseline.source} at the load of each moment${where}.${factor}`;
  }
}
