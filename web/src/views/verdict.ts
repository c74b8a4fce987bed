// The head of the first view: a sentence that says whether routing gains and how much, and all compared figures beside it.
import { difference, differenceText, figureKey, figureTitle, grade, QUANTITIES, type Quantile, type Quantity, type Situation, verdict, verdictDetail } from "../baseline.ts";
import type { Context } from "../context.ts";
import { h, replaceChildren, setAttribute, setText } from "../dom.ts";
import { duration, milliseconds, modeName, UNKNOWN } from "../format.ts";

interface Row {
  key: string;
  element: HTMLElement;
  now: HTMLElement;
  then: HTMLElement;
  change: HTMLElement;
}

const QUANTILES: readonly Quantile[] = ["p50", "p95"];

function row(quantity: Quantity, quantile: Quantile): Row {
  const now = h("td", { class: "num now" }, UNKNOWN);
  const then = h("td", { class: "num soft" }, UNKNOWN);
  const change = h("td", { class: "num change" }, UNKNOWN);
  const element = h("tr", {}, h("th", { scope: "row" }, figureTitle(quantity, quantile)), now, then, change);
  const key = figureKey(quantity, quantile);
  now.dataset["figure"] = key;
  then.dataset["baseline"] = key;
  return { key, element, now, then, change };
}

export class VerdictView {
  readonly element: HTMLElement;
  readonly #sentence = h("p", { class: "sentence", id: "verdict", "aria-live": "polite" });
  readonly #detail = h("p", { class: "detail" });
  readonly #modes = h("select", { id: "baseline-mode", onchange: () => this.#choose() });
  readonly #modesLabel = h("label", { class: "inline-field", for: "baseline-mode" }, "compared with ", this.#modes);
  readonly #rows = QUANTITIES.flatMap((quantity) => QUANTILES.map((quantile) => row(quantity.key, quantile)));
  #modesShown = "";

  constructor(private readonly context: Context) {
    const table = h("table", { class: "compared" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Figure"), h("th", { scope: "col", class: "num" }, "Now"), h("th", { scope: "col", class: "num" }, "Baseline"), h("th", { scope: "col", class: "num" }, "Difference"))),
      h("tbody", {}, ...this.#rows.map((entry) => entry.element)));
    this.element = h("section", { class: "card verdict", "aria-label": "Now against the baseline" },
      h("div", { class: "verdict-words" }, this.#sentence, this.#detail, this.#modesLabel), table);
  }

  show(): void {
    const { store } = this.context;
    const at = store.baselineNow();
    this.#say(this.#situation("ttft", "p95"));
    this.#offerModes();
    for (const entry of this.#rows) {
      const now = store.sample?.live[entry.key] ?? null;
      const then = at?.figures[entry.key] ?? null;
      const found = difference(now, then);
      setText(entry.now, milliseconds(now));
      setText(entry.then, milliseconds(then));
      setAttribute(entry.now, "title", now === null ? "no turn that tells it ended within the window" : undefined);
      setAttribute(entry.then, "title", then !== null ? undefined : at ? "the baseline does not have this figure" : "there is no baseline at this load");
      setText(entry.change, differenceText(found));
      setAttribute(entry.now, "data-grade", grade(store.hello?.slo ?? [], entry.key, now));
      setAttribute(entry.change, "data-verdict", found?.verdict ?? "none");
    }
  }

  #situation(quantity: Quantity, quantile: Quantile): Situation {
    const { store } = this.context;
    const key = figureKey(quantity, quantile);
    const at = store.baselineNow();
    return {
      running: store.running(), mode: store.sample?.mode ?? null, baselineMode: store.baselineMode, at,
      concurrency: store.sample?.load?.concurrency ?? null, now: store.sample?.live[key] ?? null, then: at?.figures[key] ?? null, figure: figureTitle(quantity, quantile),
    };
  }

  #say(situation: Situation): void {
    const found = verdict(situation);
    setAttribute(this.element, "data-tone", found?.tone ?? "none");
    if (!found) {
      this.#words(this.#whyNothing(), "", "");
      setText(this.#detail, this.#hint());
      return;
    }
    this.#words(`${found.lead} `, found.strong, ` ${found.rest}.`);
    setText(this.#detail, [verdictDetail(situation), this.#settling()].filter(Boolean).join(" · "));
  }

  #words(lead: string, strong: string, rest: string): void {
    if (this.#sentence.textContent === lead + strong + rest) return;
    replaceChildren(this.#sentence, lead, strong && h("strong", {}, strong), rest);
  }

  /** Figures are of the last half minute or so: just after a change they are still in part of before. */
  #settling(): string {
    const { store } = this.context;
    const window = store.hello?.window_s ?? 0;
    const last = store.events.filter((event) => ["start", "concurrency", "rate", "mode"].includes(event.kind)).pop();
    if (!last || !store.sample) return "";
    const since = (store.sample.t_ms - last.t_ms) / 1000;
    return since < window ? `settling: changed ${duration(since)} ago, figures are of the last ${duration(window)}` : "";
  }

  #whyNothing(): string {
    const { store } = this.context;
    if (!store.sample) return "Waiting for the first sample.";
    if (!store.sample.load) return "This process drives no load.";
    if (!store.running()) return "No load is running.";
    if (store.sample.live["ttft_p95_ms"] === undefined) return `${sentenceMode(store.sample.mode)} routing: waiting for the first answers.`;
    const figure = `TTFT p95 is ${milliseconds(store.sample.live["ttft_p95_ms"])} with ${modeName(store.sample.mode)} routing.`;
    return figure;
  }

  #hint(): string {
    const { store } = this.context;
    const load = store.sample?.load;
    if (load && !store.running()) return store.hello?.controls?.start ? "Choose the number of users and start it below." : "Start one to see its figures here.";
    if (!store.baseline) return "No baseline was given: start kvist with --baseline and a results.sqlite, a report.json or a published reference to see the difference.";
    if (!store.running()) return "";
    if (load && load.concurrency === null) return "The baseline is by number of users, and this load has none: its arrivals do not wait for answers.";
    const levels = store.baseline.modes.find((entry) => entry.mode === store.baselineMode)?.levels ?? [];
    if (!store.baselineNow() && levels.length > 0) {
      return `The baseline has levels from ${levels[0]!.concurrency} to ${levels[levels.length - 1]!.concurrency} users, and does not say what is outside of them.`;
    }
    return "";
  }

  #offerModes(): void {
    const { store } = this.context;
    const modes = store.baseline?.modes.map((entry) => entry.mode) ?? [];
    const shown = `${modes.join()}|${store.baseline?.title ?? ""}`;
    this.#modesLabel.hidden = modes.length === 0;
    if (shown !== this.#modesShown) {
      this.#modesShown = shown;
      replaceChildren(this.#modes, ...modes.map((mode) => h("option", { value: mode }, `${modeName(mode)}, ${store.baseline?.title ?? ""}`)));
    }
    if (store.baselineMode !== null && this.#modes.value !== store.baselineMode) this.#modes.value = store.baselineMode;
  }

  #choose(): void {
    this.context.store.setBaselineMode(this.#modes.value);
    this.context.refresh();
  }
}

function sentenceMode(mode: string | null): string {
  const name = modeName(mode);
  return name.charAt(0).toUpperCase() + name.slice(1);
}
