// Why this worker: the newest routing decisions, and one of them with all its candidates.
import type { Context, View } from "../context.ts";
import { h, KeyedList, setAttribute, setText } from "../dom.ts";
import { clock, count, isKnown, milliseconds, percent, UNKNOWN } from "../format.ts";
import type { Decision } from "../protocol/topics.ts";
import { CandidatesView } from "./candidates.ts";

/** Requests of one load differ at their end. */
function shortened(request: string): string {
  return request.length > 18 ? `\u2026${request.slice(-14)}` : request;
}

class Row {
  readonly element: HTMLElement;
  readonly #link: HTMLAnchorElement;
  readonly #actual = h("td", { class: "num" });

  constructor(decision: Decision) {
    const chosen = decision.candidates.find((candidate) => candidate.worker === decision.chosen);
    const cached = isKnown(chosen?.cached_tokens) && decision.prompt_tokens > 0 ? percent(chosen.cached_tokens / decision.prompt_tokens, 0) : UNKNOWN;
    this.#link = h("a", { href: `#/decisions/${decision.number}`, title: decision.request }, shortened(decision.request));
    this.element = h("tr", {}, h("th", { scope: "row", class: "clip" }, this.#link), h("td", { class: "num soft wide-only" }, isKnown(decision.t_ms) ? clock(decision.t_ms / 1000) : UNKNOWN),
      h("td", {}, decision.chosen_name), h("td", { class: "num" }, cached),
      h("td", { class: "num" }, milliseconds(chosen?.forecast?.ttft_ms)), this.#actual);
  }

  show(decision: Decision, chosen: boolean): void {
    setAttribute(this.#link, "aria-current", chosen ? "true" : undefined);
    setText(this.#actual, decision.after?.state === "failed" ? "failed" : milliseconds(decision.after?.ttft_ms));
  }
}

export class DecisionsView implements View {
  readonly element: HTMLElement;
  readonly #rows: KeyedList<Decision, Row>;
  readonly #empty = h("p", { class: "empty" });
  readonly #total = h("p", { class: "note" });
  readonly #table: HTMLElement;
  readonly #detail = new CandidatesView();
  readonly #pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.#toggle() }, "Hold");
  #chosen: Decision | null = null;
  #wanted = "";
  #held: readonly Decision[] | null = null;
  #subscribed = false;

  constructor(private readonly context: Context) {
    const body = h("tbody", {});
    this.#rows = new KeyedList(body, (decision) => String(decision.number), (decision) => new Row(decision), (row, decision) => row.show(decision, decision.number === this.#chosen?.number));
    this.#table = h("table", { class: "list" }, h("thead", {}, h("tr", {}, ...[
      ["Request", ""], ["At", "num wide-only"], ["Worker", ""], ["Cached", "num"], ["Predicted", "num"], ["TTFT", "num"],
    ].map(([title, kind]) => h("th", { scope: "col", class: kind! }, title!)))), body);
    this.element = h("div", { class: "view split decisions" },
      h("section", { class: "card master", "aria-label": "Decisions" }, h("div", { class: "card-head" }, h("h2", {}, "Why this worker"), this.#total, h("div", { class: "segments small" }, this.#pause)), this.#empty,
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of decisions" }, this.#table)),
      this.#detail.element);
  }

  enter(rest: string): void {
    this.#wanted = rest;
    if (rest === "") this.#chosen = null;
    setAttribute(this.element, "data-detail", rest === "" ? undefined : "open");
  }

  leave(): void {
    if (!this.#subscribed) return;
    this.#subscribed = false;
    this.context.connection.unsubscribe("decisions").catch(() => undefined);  // lost: nothing is subscribed any more
  }

  show(): void {
    const { store } = this.context;
    this.#subscribe();
    const known = this.#held ?? store.decisions?.decisions ?? [];
    // The chosen one stays on show when it has left the list of the newest.
    const current = known.find((decision) => String(decision.number) === this.#wanted);
    if (current) this.#chosen = current;
    const shown = this.#wanted === "" ? known[0] ?? null : this.#chosen;
    this.#table.hidden = known.length === 0;
    this.#empty.hidden = known.length > 0;
    setText(this.#empty, this.#whyEmpty());
    setText(this.#total, store.decisions ? `${count(store.decisions.total)} since the gateway's start` : "");
    this.#rows.show(known);
    this.#detail.show(shown);
  }

  #whyEmpty(): string {
    const { store } = this.context;
    if (store.decisions?.problem) return store.decisions.problem;
    if (!store.sample?.gateway) return "No gateway is known to this process, so there are no routing decisions to show. Give its administration address with --gateway.";
    return store.decisions === null ? "Waiting for the decisions." : "No request was routed yet. Start the load in the first view.";
  }

  #subscribe(): void {
    const open = this.context.store.connection.state === "open";
    if (!open) this.#subscribed = false;
    if (!open || this.#subscribed || this.context.store.hello === null) return;
    this.#subscribed = true;
    this.context.connection.subscribe("decisions").catch((error: Error) => this.context.tell(error.message));
  }

  #toggle(): void {
    this.#held = this.#held ? null : this.context.store.decisions?.decisions ?? [];
    setAttribute(this.#pause, "aria-pressed", String(this.#held !== null));
    setText(this.#pause, this.#held ? "Go on" : "Hold");
    this.context.refresh();
  }
}
