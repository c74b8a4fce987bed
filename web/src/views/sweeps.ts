// Sweeps: the running one, the stored runs, and one of them.
import type { Context, View } from "../context.ts";
import { h, KeyedList, setAttribute, setText } from "../dom.ts";
import { count, modeName, plural } from "../format.ts";
import { runs as runsReader, type RunSummary } from "../protocol/answers.ts";
import { RunView, startedText } from "./run.ts";
import { SweepProgressView } from "./sweep_progress.ts";

const ASK_EVERY_MS = 10_000;

class Row {
  readonly element: HTMLElement;
  readonly #link: HTMLAnchorElement;
  readonly #levels = h("td", { class: "num" });

  constructor(run: RunSummary) {
    this.#link = h("a", { href: `#/sweeps/${encodeURIComponent(run.run)}`, title: run.file ?? undefined }, run.name);
    this.element = h("tr", {}, h("th", { scope: "row" }, this.#link), h("td", { class: "num soft wide-only" }, startedText(run)), h("td", {}, run.modes.map(modeName).join(", ")),
      h("td", { class: "num" }, run.concurrencies.length > 0 ? `${run.concurrencies[0]!} to ${run.concurrencies[run.concurrencies.length - 1]!}` : "–"), this.#levels, h("td", {}, run.simulated ? "simulated" : "measured"));
  }

  show(run: RunSummary, chosen: boolean): void {
    setAttribute(this.#link, "aria-current", chosen ? "true" : undefined);
    setText(this.#levels, run.finished ? count(run.levels) : `${count(run.levels)}, not finished`);
  }
}

export class SweepsView implements View {
  readonly element: HTMLElement;
  readonly #progress: SweepProgressView;
  readonly #run: RunView;
  readonly #rows: KeyedList<RunSummary, Row>;
  readonly #table: HTMLElement;
  readonly #empty = h("p", { class: "empty" });
  readonly #total = h("p", { class: "note" });
  readonly #unread = h("p", { class: "unread", role: "status", hidden: true });
  #runs: RunSummary[] | null = null;
  #problem = "";
  #asked = -Infinity;
  #wanted = "";
  #levelsStored = "";
  #server = "";

  constructor(private readonly context: Context) {
    this.#progress = new SweepProgressView(context);
    this.#run = new RunView(context);
    const body = h("tbody", {});
    this.#rows = new KeyedList(body, (run) => run.run, (run) => new Row(run), (row, run) => row.show(run, run.run === this.#wanted));
    this.#table = h("table", { class: "list" }, h("thead", {}, h("tr", {}, ...[
      ["Run", ""], ["Started", "num wide-only"], ["Modes", ""], ["Users", "num"], ["Levels", "num"], ["Kind", ""],
    ].map(([title, kind]) => h("th", { scope: "col", class: kind! }, title!)))), body);
    this.element = h("div", { class: "view sweeps" }, this.#progress.element,
      h("section", { class: "card master", "aria-label": "Stored runs" }, h("div", { class: "card-head" }, h("h2", {}, "Runs"), this.#total), this.#unread, this.#empty,
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of runs" }, this.#table)),
      this.#run.element);
  }

  enter(rest: string): void {
    this.#wanted = rest;
    this.#asked = -Infinity;
    if (rest === "") this.#run.close("Choose a run from the list to see its curves.");
  }

  show(): void {
    this.#progress.show();
    this.#noticeServer();
    this.#ask();
    const runs = this.#runs ?? [];
    this.#table.hidden = runs.length === 0;
    this.#empty.hidden = runs.length > 0;
    setText(this.#empty, this.#problem || (this.#runs === null ? "Asking for the stored runs …" : "No stored run is open here. The results of a sweep are looked at with kvist dashboard RESULTS, which the sweep prints at its end."));
    setText(this.#total, runs.length > 0 ? plural(runs.length, "run") : "");
    this.#rows.show(runs);
    const only = this.#wanted === "" && runs.length === 1 ? runs[0]!.run : this.#wanted;
    if (only !== "" && this.context.store.connection.state === "open") this.#run.open(only);
    this.#run.offer(runs);
    this.#followSweep();
  }

  /** Another server has other runs, under the same ids. */
  #noticeServer(): void {
    const server = this.context.store.hello?.server_id ?? "";
    if (server === this.#server) return;
    if (this.#server !== "") {
      this.#runs = null;
      this.#asked = -Infinity;
      this.#levelsStored = "";
      this.#run.close("Choose a run from the list to see its curves.");
    }
    this.#server = server;
  }

  #followSweep(): void {
    const { sweep } = this.context.store;
    if (!sweep?.run) return;
    const stored = `${sweep.run} ${sweep.levels.filter((level) => level.state === "done").length}`;
    if (stored === this.#levelsStored) return;
    this.#levelsStored = stored;
    this.#run.reload(sweep.run);
  }

  #ask(): void {
    const { store, connection } = this.context;
    const now = performance.now();
    if (store.connection.state !== "open" || store.hello === null || now - this.#asked < ASK_EVERY_MS) return;
    this.#asked = now;
    connection.ask("runs", {}, runsReader).then(
      (answer) => {
        this.#runs = answer.runs;
        this.#problem = "";
        const problems = answer.problems ?? [];
        this.#unread.hidden = problems.length === 0;
        setText(this.#unread, `Not read: ${problems.join("; ")}.`);
        this.context.refresh();
      },
      (error: Error) => {
        this.#problem = error.message;
        this.context.refresh();
      },
    );
  }
}
