// A finished run: its figures as curves over the load with their intervals, modes beside each other, another run's dashed.
import { figureText } from "../compared.ts";
import { NotConnected } from "../connection.ts";
import type { Context } from "../context.ts";
import { h, replaceChildren, setText } from "../dom.ts";
import { axisMilliseconds, axisNumber, plural, UNKNOWN } from "../format.ts";
import { type Curve, CurvePlot } from "../plots/curve_plot.ts";
import { comparison as comparisonReader, type Comparison, type Run, run as runReader, type RunFigure, type RunSummary } from "../protocol/answers.ts";
import { documents, plotLinks } from "./downloads.ts";
import { comparisonTable, levelTable } from "./run_tables.ts";
import { LevelView } from "./level.ts";

const MODE_COLOURS = ["--m0", "--m1", "--m2", "--m3", "--m4", "--m5", "--w2", "--w7", "--w6", "--w5"];
/** What is drawn at first; the rest behind a button. */
const FIRST_FIGURES = ["ttft_p50_ms", "ttft_p95_ms", "tpot_p95_ms", "itl_p95_ms", "latency_p95_ms", "output_tokens_per_s", "hit_rate_pct"];

/** Grey is the reference everywhere on the page: the first mode of a run, unless it is the only one. */
export function modeColour(index: number, modes: number): string {
  return modes === 1 ? "--m1" : MODE_COLOURS[index % MODE_COLOURS.length]!;
}

export function curves(run: Run, figure: string, other: Run | null): Curve[] {
  const own = run.modes.map((mode, index): Curve => ({ name: mode.title, colour: modeColour(index, run.modes.length), points: points(mode.levels, figure) }));
  const others = (other?.modes ?? []).map((mode): Curve => {
    const index = run.modes.findIndex((candidate) => candidate.mode === mode.mode);
    return { name: `${mode.title} ′`, colour: index < 0 ? MODE_COLOURS[5]! : modeColour(index, run.modes.length), dash: [5, 4], points: points(mode.levels, figure) };
  });
  return [...own, ...others].filter((curve) => curve.points.some((point) => point.value !== null));
}

function points(levels: Run["modes"][number]["levels"], figure: string): Curve["points"] {
  return levels.map((level) => {
    const found = level.figures.get(figure);
    return { x: level.concurrency, value: found?.value ?? null, low: found?.low ?? null, high: found?.high ?? null };
  });
}

export class RunView {
  readonly element: HTMLElement;
  readonly #title = h("h2", {}, "A run");
  readonly #line = h("p", { class: "note" });
  readonly #empty = h("p", { class: "empty" });
  readonly #files = h("div", {});
  readonly #compare = h("select", { id: "compare-run", onchange: () => void this.#compareWith(this.#compare.value) });
  readonly #compareBox = h("label", { class: "inline-field", for: "compare-run" }, "compared with ", this.#compare);
  readonly #plots = h("div", { class: "plots" });
  readonly #tables = h("div", {});
  readonly #level: LevelView;
  readonly #more = h("button", { type: "button", class: "link", onclick: () => this.#showAll() }, "all figures");
  #drawn: CurvePlot[] = [];
  #run: Run | null = null;
  #other: Run | null = null;
  #comparison: Comparison | null = null;
  #all = false;
  #wanted = "";

  constructor(private readonly context: Context) {
    this.#level = new LevelView(context);
    this.element = h("section", { class: "card detail run", "aria-label": "One run" }, h("a", { class: "back", href: "#/sweeps" }, "← all runs"),
      h("div", { class: "card-head" }, this.#title, this.#compareBox), this.#line, this.#files, this.#empty, this.#plots, this.#more, this.#tables, this.#level.element);
    this.close("Choose a run from the list to see its curves.");
  }

  open(id: string): void {
    if (this.#wanted === id) return;
    this.close("Reading the run and computing its intervals; millions of turns take minutes …");
    this.#wanted = id;
    this.#ask(id);
  }

  /** Once more: a running sweep has stored another level. */
  reload(id: string): void {
    if (this.#wanted === id) this.#ask(id);
  }

  #ask(id: string): void {
    this.context.connection.ask("run", { run: id }, runReader).then(
      (answer) => {
        if (this.#wanted !== id) return;
        this.#run = answer;
        this.#draw();
      },
      (error: Error) => {
        if (this.#wanted !== id) return;
        this.close(error.message);
        if (!(error instanceof NotConnected)) this.#wanted = id;  // not asked again until another is chosen
      },
    );
  }

  close(text: string): void {
    this.#wanted = "";
    this.#run = this.#other = this.#comparison = null;
    this.#compare.value = "";
    setText(this.#title, "A run");
    this.#clearPlots();
    for (const part of [this.#files, this.#tables]) replaceChildren(part);
    this.#more.hidden = this.#compareBox.hidden = true;
    this.#level.close();
    setText(this.#line, "");
    setText(this.#empty, text);
    this.#empty.hidden = false;
  }

  /** The other runs there are, to compare with. */
  offer(runs: readonly RunSummary[]): void {
    const others = runs.filter((run) => run.run !== this.#wanted);
    const known = [...this.#compare.options].slice(1).map((option) => option.value).join();
    this.#compareBox.hidden = this.#run === null || others.length === 0;
    if (others.map((run) => run.run).join() === known) return;
    const chosen = this.#compare.value;
    replaceChildren(this.#compare, h("option", { value: "" }, "no other run"), ...others.map((run) => h("option", { value: run.run }, runTitle(run))));
    if (others.some((run) => run.run === chosen)) this.#compare.value = chosen;
  }

  async #compareWith(id: string): Promise<void> {
    const run = this.#wanted;
    const isWanted = () => this.#wanted === run && this.#compare.value === id;
    const { connection } = this.context;
    let other: Run | null = null;
    let comparison: Comparison | null = null;
    try {
      if (id !== "" && this.#run) {
        other = await connection.ask("run", { run: id }, runReader);
        if (!isWanted()) return;
        comparison = await connection.ask("compare", { baseline: id, candidate: run }, comparisonReader);
      }
    } catch (error) {
      if (isWanted()) this.context.tell((error as Error).message);
    }
    if (!isWanted()) return;  // an answer may take minutes, and another run be on show by then
    this.#other = other;
    this.#comparison = comparison;
    this.#draw();
  }

  #showAll(): void {
    this.#all = !this.#all;
    this.#draw();
  }

  #draw(): void {
    const run = this.#run;
    if (!run) return;
    this.#empty.hidden = true;
    setText(this.#title, run.name);
    setText(this.#line, runLine(run));
    replaceChildren(this.#files, documents(run.run, run.files));
    const first = run.figures.filter((figure) => FIRST_FIGURES.includes(figure.figure));
    const shown = this.#all || first.length === 0 ? run.figures : first;
    this.#more.hidden = first.length === 0 || first.length === run.figures.length;
    setText(this.#more, this.#all ? "fewer figures" : `all ${run.figures.length} figures`);
    this.#clearPlots();
    replaceChildren(this.#plots, ...shown.map((figure) => this.#plot(run, figure)));
    replaceChildren(this.#tables, this.#comparison && comparisonTable(this.#comparison, run.figures, this.#other?.name ?? ""), levelTable(run, (level, title) => this.#level.open(run.run, level, title)));
  }

  #clearPlots(): void {
    for (const plot of this.#drawn) plot.destroy();
    this.#drawn = [];
    replaceChildren(this.#plots);
  }

  #plot(run: Run, figure: RunFigure): HTMLElement {
    const plot = new CurvePlot(figure.title);
    this.#drawn.push(plot);
    const links = plotLinks(run.run, figure.figure, run.files, (text) => this.context.tell(text));
    if (links) plot.element.querySelector("figcaption")!.append(links);
    plot.show(curves(run, figure.figure, this.#other), figureText(figure), figure.unit === "ms" ? axisMilliseconds : axisNumber);
    return plot.element;
  }
}

export function runTitle(run: RunSummary): string {
  return [run.name, startedText(run), run.file ?? ""].filter(Boolean).join(", ");
}

export function startedText(run: { started_utc: string | null }): string {
  return run.started_utc?.replace("T", " ").replace(/:\d\d(\.\d+)?Z$/, " UTC") ?? UNKNOWN;
}

function runLine(run: Run): string {
  const parts = [run.file ?? "", startedText(run), run.simulated ? "simulated" : "measured", plural(run.levels, "level")];
  if (run.time_scale !== null && run.time_scale !== 1) parts.push(`workers ${run.time_scale} times as fast as what they model`);
  if (!run.finished) parts.push("not finished");
  if (run.workload) parts.push(run.workload);
  return parts.filter(Boolean).join(" · ");
}

