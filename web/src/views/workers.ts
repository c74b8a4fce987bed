// The workers beside each other, and how unevenly they are loaded over time.
import type { Context, View } from "../context.ts";
import { h, KeyedList, setAttribute, setText } from "../dom.ts";
import { count, decimal, plural } from "../format.ts";
import { type Line, TimePlot } from "../plots/time_plot.ts";
import type { Worker } from "../protocol/messages.ts";
import { workersHistory, type WorkersHistory } from "../protocol/answers.ts";
import { Series } from "../series.ts";
import { workerColumn, type WorkerKey } from "../store.ts";
import { workerColour } from "../theme.ts";
import { marks } from "./live.ts";
import { CELLS, WorkerCell } from "./worker_cells.ts";
import { WindowChoice } from "./window_choice.ts";

/** The page keeps each second of half an hour itself; longer windows it asks for. */
const OWN_S = 1800;
const ASK_EVERY_MS = 20_000;
/** More lines than this nobody tells apart. */
const MOST_LINES = 16;

const GOOD_STATES = new Set(["healthy"]);
const BAD_STATES = new Set(["unhealthy", "stalled", "ejected", "other_model"]);

function stateTone(worker: Worker): string {
  return GOOD_STATES.has(worker.state) ? "good" : BAD_STATES.has(worker.state) ? "bad" : "warn";
}

class WorkerRow {
  readonly element: HTMLElement;
  readonly #dot = h("span", { class: "dot", "aria-hidden": "true" });
  readonly #state = h("span", { class: "pill" });
  readonly #problem = h("span", { class: "problem" });
  readonly #cells = CELLS.map((cell) => new WorkerCell(cell));

  constructor(worker: Worker) {
    const name = h("th", { scope: "row" }, h("span", { class: "worker-name" }, this.#dot, worker.name), this.#state, this.#problem);
    this.element = h("tr", {}, name, ...this.#cells.map((cell) => cell.element));
    this.element.dataset["worker"] = worker.name;
  }

  show(worker: Worker, index: number): void {
    setAttribute(this.#dot, "data-colour", String(index % 8));
    setText(this.#state, worker.state.replaceAll("_", " "));
    setAttribute(this.#state, "data-tone", stateTone(worker));
    const restarts = worker.restarts ? `restarted ${count(worker.restarts)}×` : "";
    setText(this.#problem, [worker.problem ?? "", restarts].filter(Boolean).join(" · "));
    for (const cell of this.#cells) cell.show(worker);
  }
}

interface Lines {
  plot: TimePlot;
  key: WorkerKey;
}

export class WorkersView implements View {
  readonly element: HTMLElement;
  readonly #rows: KeyedList<Worker, WorkerRow>;
  readonly #table: HTMLElement;
  readonly #empty = h("p", { class: "empty" });
  readonly #window: WindowChoice;
  readonly #imbalance: TimePlot;
  readonly #perWorker: Lines[];
  readonly #summary = h("p", { class: "note", "aria-live": "off" });
  #long: Series | null = null;
  #asked = 0;
  #askedWindow = 0;

  constructor(private readonly context: Context) {
    const body = h("tbody", {});
    this.#rows = new KeyedList(body, (worker) => worker.name, (worker) => new WorkerRow(worker), (row, worker, index) => row.show(worker, index));
    this.#table = h("table", { class: "workers-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Worker"), ...CELLS.map((cell) => h("th", { scope: "col", class: "num", title: cell.help }, cell.title)))), body);
    this.#window = new WindowChoice(context);
    this.#imbalance = new TimePlot({
      title: "Imbalance: busiest worker over the mean", text: decimal, labelWidth: 70,
      lines: [{ name: "imbalance", colour: "--live", width: 2 }],
    });
    this.#perWorker = [
      this.#lines("in_flight", "Requests under way"), this.#lines("queue", "Queued"), this.#lines("kv_blocks_used", "KV blocks of requests under way"), this.#lines("hit_rate_pct", "Hit rate, %"),
    ];
    this.element = h("div", { class: "view workers" },
      h("section", { class: "card", "aria-label": "Workers now" }, h("div", { class: "card-head" }, h("h2", {}, "Workers"), this.#summary), this.#empty, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of workers" }, this.#table)),
      h("section", { class: "card", "aria-label": "Workers over time" }, h("div", { class: "card-head" }, h("h2", {}, "Over time"), this.#window.element),
        this.#imbalance.element, h("div", { class: "plots" }, ...this.#perWorker.map((lines) => lines.plot.element))));
  }

  show(): void {
    const { store } = this.context;
    const workers = store.sample?.workers ?? null;
    this.#window.show();
    this.#table.hidden = !workers || workers.length === 0;
    this.#empty.hidden = !this.#table.hidden;
    setText(this.#empty, this.#whyEmpty(workers));
    setText(this.#summary, workers && workers.length > 0 ? this.#summaryOf(workers) : "");
    this.#rows.show(workers ?? []);
    this.#showPlots(workers ?? []);
  }

  #lines(key: WorkerKey, title: string): Lines {
    return { key, plot: new TimePlot({ title, lines: [], text: decimal, labelWidth: 88, height: 170 }) };
  }

  #whyEmpty(workers: Worker[] | null): string {
    const gateway = this.context.store.sample?.gateway;
    if (!this.context.store.sample) return "Waiting for the first sample.";
    if (!gateway) return "No gateway is known to this process, and a gateway is who knows the workers. Give its administration address with --gateway.";
    if (!gateway.reached) return `The gateway ${gateway.url} does not answer: ${gateway.problem}`;
    return workers === null ? "The gateway does not tell its workers." : "The gateway has no workers. Add some to its file, or by POST /admin/workers.";
  }

  #summaryOf(workers: readonly Worker[]): string {
    const healthy = workers.filter((worker) => worker.state === "healthy").length;
    const all = plural(workers.length, "worker");
    if (workers.every((worker) => worker.state === "unknown")) return `${all}, as the gateway last told them`;
    return healthy === workers.length ? `${all}, all healthy` : `${all}, ${healthy} healthy`;
  }

  #showPlots(workers: readonly Worker[]): void {
    const { store, windowS } = this.context;
    const to = Math.max(store.live.lastTime(), 0);
    const from = to - windowS;
    const marked = marks(store, from);
    this.#imbalance.show({ times: store.live.times, columns: [store.live.column("imbalance")], from, to, version: store.live.version, marks: marked, references: [{ value: 1, text: "even", colour: "--soft" }] });
    this.#imbalance.describe(`now ${decimal(store.sample?.live["imbalance"])}; 1 is even`);
    const source = this.#source();
    const shown = workers.slice(0, MOST_LINES);
    for (const { plot, key } of this.#perWorker) {
      plot.setLines(shown.map((worker, index): Line => ({ name: worker.name, colour: workerColour(index), width: 1.75 })));
      plot.show({ times: source.times, columns: shown.map((worker) => source.column(workerColumn(worker.name, key))), from, to, version: source.version, marks: marked });
      plot.describe(shown.map((worker) => `${worker.name} ${decimal(worker[key as keyof Worker] as number | null)}`).join(", "));
    }
  }

  /** The page's own samples, or what the server answered last for a longer window. */
  #source(): Series {
    const { windowS, connection } = this.context;
    if (windowS <= OWN_S && this.context.store.workers.length > 1 && this.#covered()) return this.context.store.workers;
    const now = performance.now();
    if (this.context.store.connection.state === "open" && (now - this.#asked > ASK_EVERY_MS || this.#askedWindow !== windowS)) {
      this.#asked = now;
      this.#askedWindow = windowS;
      connection.ask("history", { of: "workers", window_s: windowS, points: 1800 }, workersHistory).then((answer) => {
        this.#long = asSeries(answer);
        this.context.refresh();
      }, () => undefined);  // the next picture asks again
    }
    return this.#long ?? this.context.store.workers;
  }

  /** Whether the page has seen all of the window itself, or asked already and has nothing better. */
  #covered(): boolean {
    const { store, windowS } = this.context;
    const first = store.workers.times[0]!;
    return first <= store.live.lastTime() - windowS || first <= (store.live.times[0] ?? first);
  }
}

function asSeries(history: WorkersHistory): Series {
  const series = new Series(Math.max(1, history.t_ms.length));
  const keys: WorkerKey[] = ["in_flight", "queue", "kv_blocks_used", "hit_rate_pct"];
  history.t_ms.forEach((t, i) => {
    const row: Record<string, number | null> = {};
    for (const [worker, columns] of history.workers) for (const key of keys) row[workerColumn(worker, key)] = columns.get(key)?.[i] ?? null;
    series.append(t / 1000, row, 3.5 * history.step_s);
  });
  return series;
}
