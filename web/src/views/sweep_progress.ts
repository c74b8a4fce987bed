// The running sweep: how far it is, when it will be over, and what its levels gave so far.
import type { Context } from "../context.ts";
import { h, KeyedList, setAttribute, setText } from "../dom.ts";
import { clock, duration, isKnown, milliseconds, modeName, percent, UNKNOWN } from "../format.ts";
import type { PlannedLevel, Sweep } from "../protocol/messages.ts";

const PHASES: Record<string, string> = { starting: "starting the deployment", warm_up: "warming up", measuring: "measuring", draining: "ending the last answers" };
const STATES: Record<PlannedLevel["state"], string> = { done: "✓ done", running: "running", failed: "failed", planned: "planned" };

class LevelRow {
  readonly element: HTMLElement;
  readonly #state = h("td", {});
  readonly #time = h("td", { class: "num" });
  readonly #p50 = h("td", { class: "num" });
  readonly #p95 = h("td", { class: "num" });

  constructor(level: PlannedLevel) {
    this.element = h("tr", {}, h("th", { scope: "row" }, modeName(level.mode)), h("td", { class: "num" }, isKnown(level.concurrency) ? String(level.concurrency) : UNKNOWN),
      h("td", { class: "num" }, String(level.repetition + 1)), this.#state, this.#time, this.#p50, this.#p95);
  }

  show(level: PlannedLevel): void {
    setText(this.#state, STATES[level.state]);
    setAttribute(this.element, "data-state", level.state);
    setText(this.#time, isKnown(level.started_ms) && isKnown(level.ended_ms) ? duration((level.ended_ms - level.started_ms) / 1000) : UNKNOWN);
    setText(this.#p50, milliseconds(level.figures?.["ttft_p50_ms"]));
    setText(this.#p95, milliseconds(level.figures?.["ttft_p95_ms"]));
  }
}

export class SweepProgressView {
  readonly #name = h("h2", {});
  readonly #text = h("p", { class: "note" });
  readonly #bar = h("progress", { max: "1", "aria-label": "Progress of the sweep" });
  readonly #rows: KeyedList<PlannedLevel, LevelRow>;
  readonly element: HTMLElement;

  constructor(private readonly context: Context) {
    const body = h("tbody", {});
    this.#rows = new KeyedList(body, (level) => `${level.mode} ${level.concurrency ?? ""} ${level.repetition}`, (level) => new LevelRow(level), (row, level) => row.show(level));
    this.element = h("section", { class: "card", "aria-label": "Running sweep" },
      h("div", { class: "card-head" }, this.#name, this.#text), this.#bar,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Levels of the sweep" },
        h("table", { class: "list" }, h("thead", {}, h("tr", {}, ...[
          ["Mode", ""], ["Users", "num"], ["Repetition", "num"], ["State", ""], ["Took", "num"], ["TTFT p50", "num"], ["TTFT p95", "num"],
        ].map(([title, kind]) => h("th", { scope: "col", class: kind! }, title!)))), body)));
  }

  show(): void {
    const { store } = this.context;
    const sweep = store.sweep;
    this.element.hidden = sweep === null;
    if (sweep === null) return;
    const now = { ...sweep, ...(store.sample?.sweep ?? {}) };
    setText(this.#name, sweep.name);
    setText(this.#text, progressText(now));
    this.#bar.value = now.progress;
    this.#rows.show(sweep.levels);
  }
}

export function progressText(sweep: Sweep): string {
  const done = sweep.levels.filter((level) => level.state === "done" || level.state === "failed").length;
  const levels = `${done} of ${sweep.levels.length} levels`;
  if (sweep.state === "failed") return `Failed after ${levels}: ${sweep.problem}`;
  if (sweep.state === "finished") return `Finished: ${levels}.`;
  const level = sweep.position === null ? undefined : sweep.levels[sweep.position];
  const what = sweep.phase === null ? "" : `, ${PHASES[sweep.phase] ?? sweep.phase.replaceAll("_", " ")}${level ? ` ${modeName(level.mode)} at ${level.concurrency ?? UNKNOWN}` : ""}`;
  const end = sweep.estimated_end_ms === null ? "end not known yet" : `ends about ${clock(sweep.estimated_end_ms / 1000)}`;
  return `${percent(sweep.progress, 0)}, ${levels}${what}; ${end}`;
}
