// Rates and shares of now, each with its recent course and, where the baseline knows it, its value there.
import { grade } from "../baseline.ts";
import type { Context } from "../context.ts";
import { h, setAttribute, setText } from "../dom.ts";
import { count, decimal, isKnown, type Known, UNKNOWN } from "../format.ts";
import { Sparkline } from "../plots/sparkline.ts";

interface TileSpec {
  figure: string;
  title: string;
  unit: string;
  text: (value: Known) => string;
  /** Why the figure may not be known. */
  why: string;
}

const percentPoints = (value: Known): string => (isKnown(value) ? value.toFixed(1) : UNKNOWN);

const TILES: readonly TileSpec[] = [
  { figure: "output_tokens_per_s", title: "Throughput", unit: "tokens/s", text: count, why: "no load is running" },
  { figure: "turns_per_s", title: "Turns", unit: "per s", text: decimal, why: "no load is running" },
  { figure: "conversation_starts_per_s", title: "Conversations", unit: "started per s", text: decimal, why: "no load is running" },
  { figure: "hit_rate_pct", title: "Cache hit rate", unit: "%", text: percentPoints, why: "no answer told its cached tokens within the window" },
  { figure: "in_flight", title: "Under way", unit: "turns", text: count, why: "no load is running" },
  { figure: "queued", title: "Queued", unit: "at workers", text: count, why: "no worker tells its queue" },
  { figure: "error_pct", title: "Errors", unit: "%", text: percentPoints, why: "no turn ended within the window" },
  { figure: "imbalance", title: "Imbalance", unit: "max / mean", text: decimal, why: "nothing is under way at the workers" },
];

class Tile {
  readonly element: HTMLElement;
  readonly #value = h("span", { class: "tile-value" }, UNKNOWN);
  readonly #note = h("span", { class: "tile-note" });
  readonly #spark = new Sparkline();

  constructor(private readonly spec: TileSpec) {
    this.#value.dataset["figure"] = spec.figure;
    this.element = h("div", { class: "tile" },
      h("dt", {}, spec.title), h("dd", {}, h("span", { class: "tile-line" }, this.#value, h("span", { class: "tile-unit" }, spec.unit)), this.#note), this.#spark.element);
  }

  show(context: Context): void {
    const { store } = context;
    const value = store.sample?.live[this.spec.figure];
    const then = store.baselineNow()?.figures[this.spec.figure];
    setText(this.#value, this.spec.text(value));
    setAttribute(this.#value, "data-grade", grade(store.hello?.slo ?? [], this.spec.figure, value));
    setText(this.#note, !isKnown(value) ? this.spec.why : isKnown(then) ? `baseline ${this.spec.text(then)}` : "");
    const to = store.live.lastTime();
    if (store.live.length > 0) this.#spark.show(store.live.times, store.live.column(this.spec.figure), to - context.windowS, to, store.live.version);
  }
}

export class TilesView {
  readonly #tiles = TILES.map((spec) => new Tile(spec));
  readonly element = h("dl", { class: "tiles", "aria-label": "Rates and shares" }, ...this.#tiles.map((tile) => tile.element));

  constructor(private readonly context: Context) {}

  show(): void {
    for (const tile of this.#tiles) tile.show(this.context);
  }
}
