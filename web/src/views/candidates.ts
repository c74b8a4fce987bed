// One routing decision: every candidate with what was predicted of it, and what came of the choice.
import { h, replaceChildren, setText } from "../dom.ts";
import { compact, count, decimal, isKnown, milliseconds, modeName, percent, UNKNOWN } from "../format.ts";
import type { Candidate, Decision } from "../protocol/topics.ts";

/** Policies whose cost is a time. */
const COST_IN_MS = new Set(["kv"]);

export function costText(decision: Decision, candidate: Candidate): string {
  if (candidate.cost === null) return "not considered";
  return COST_IN_MS.has(decision.mode) ? milliseconds(candidate.cost) : decimal(candidate.cost);
}

function byCost(a: Candidate, b: Candidate): number {
  return (a.cost ?? Infinity) - (b.cost ?? Infinity) || a.worker - b.worker;
}

/** Why the chosen one, in a sentence. */
export function why(decision: Decision): string {
  const chosen = decision.candidates.find((candidate) => candidate.worker === decision.chosen);
  const others = decision.candidates.filter((candidate) => candidate.worker !== decision.chosen).sort(byCost);
  if (!chosen) return `${decision.chosen_name} was chosen; it is not among the candidates that were kept.`;
  if (others.length === 0) return `${decision.chosen_name} was the only worker that could take the request.`;
  if (decision.reason === "safety_net") return `${decision.chosen_name} by the fallback rule: the policy's predictions were too wrong to go by.`;
  const cached = isKnown(chosen.cached_tokens) ? `it holds ${count(chosen.cached_tokens)} of the prompt's ${count(decision.prompt_tokens)} tokens` : "";
  if (!COST_IN_MS.has(decision.mode)) return `${decision.chosen_name} by ${modeName(decision.mode)} routing${cached ? `; ${cached}, which this mode ${decision.mode === "dynamo" ? "counts in blocks" : "does not look at"}` : ""}.`;
  const next = others[0]!;
  return `${decision.chosen_name} for ${costText(decision, chosen)} against ${costText(decision, next)} on ${next.name}, the next best: ${cached}, and ${plain(chosen.load?.requests)} under way there (${plain(next.load?.requests)} on ${next.name}).`;
}

function plain(value: number | null | undefined): string {
  return isKnown(value) ? `${count(value)} ${value === 1 ? "request" : "requests"}` : "an unknown number of requests";
}

/** The parts of a candidate's predicted time to first token, as a bar that all candidates share the scale of. */
function parts(candidate: Candidate, most: number): HTMLElement {
  const forecast = candidate.forecast;
  const bar = h("span", { class: "parts", "aria-hidden": "true" });
  if (!forecast || most <= 0) return bar;
  const known = [["slot", forecast.slot_wait_ms], ["queue", forecast.queue_ms], ["prefill", forecast.prefill_ms]] as const;
  const sum = known.reduce((total, [, value]) => total + (value ?? 0), 0);
  const all = [...known, ["always", Math.max(0, (forecast.ttft_ms ?? sum) - sum)] as const];
  for (const [part, value] of all) {
    if (!isKnown(value) || value <= 0) continue;
    const piece = h("span", { class: `part part-${part}` });
    piece.style.width = `${((100 * value) / most).toFixed(2)}%`;
    bar.append(piece);
  }
  return bar;
}

function candidateRow(decision: Decision, candidate: Candidate, most: number): HTMLElement {
  const chosen = candidate.worker === decision.chosen;
  const forecast = candidate.forecast;
  const share = isKnown(candidate.cached_tokens) && decision.prompt_tokens > 0 ? ` (${percent(candidate.cached_tokens / decision.prompt_tokens, 0)})` : "";
  const cell = (label: string, text: string, kind = "num") => {
    const element = h("td", { class: kind }, text);
    element.dataset["label"] = label;
    return element;
  };
  const predicted = h("td", { class: "predicted" }, h("span", { class: "num" }, milliseconds(forecast?.ttft_ms)), parts(candidate, most));
  predicted.dataset["label"] = "Predicted TTFT";
  const row = h("tr", { class: chosen ? "chosen" : undefined },
    h("th", { scope: "row" }, candidate.name, chosen && h("span", { class: "pill", "data-tone": "good" }, "chosen"),
      candidate.trust !== null && candidate.trust !== "exact" && h("span", { class: "pill", "data-tone": "warn", title: "how well the gateway knows its cache" }, `cache ${candidate.trust}`)),
    cell("Cost", costText(decision, candidate)), predicted,
    cell("Cached", `${compact(candidate.cached_tokens)}${share}`),
    cell("Under way", count(candidate.load?.requests)),
    cell("Backlog", compact(candidate.load?.prefill_tokens)),
    cell("Others wait", isKnown(forecast?.crowding_ms) ? `${milliseconds(forecast.crowding_ms)}/step` : UNKNOWN));
  row.dataset["worker"] = candidate.name;
  return row;
}

function outcomeText(decision: Decision): string {
  const after = decision.after;
  const chosen = decision.candidates.find((candidate) => candidate.worker === decision.chosen);
  if (!after || after.state === "under_way") return isKnown(after?.ttft_ms) ? `Under way; its first token came after ${milliseconds(after.ttft_ms)}.` : "Under way.";
  if (after.state === "failed") return `It failed there: ${after.failure ?? "no reason is known"}.`;
  const predicted = chosen?.forecast?.ttft_ms;
  const first = isKnown(after.ttft_ms) ? `The first token came after ${milliseconds(after.ttft_ms)}${isKnown(predicted) ? `, predicted were ${milliseconds(predicted)}` : ""}` : "It was not streamed, so its first token has no time";
  const cached = isKnown(after.cached_tokens) ? `; ${count(after.cached_tokens)} tokens were cached, predicted were ${count(chosen?.cached_tokens)}` : "";
  return `${first}${cached}. ${count(after.output_tokens)} tokens in ${milliseconds(after.duration_ms)}.`;
}

export class CandidatesView {
  readonly element: HTMLElement;
  readonly #title = h("h2", {}, "Why this worker");
  readonly #why = h("p", { class: "gain" });
  readonly #outcome = h("p", { class: "note" });
  readonly #body = h("tbody", {});
  readonly #table: HTMLElement;
  readonly #key: HTMLElement;
  #shown = "";

  constructor() {
    this.#table = h("table", { class: "candidates" }, h("thead", {}, h("tr", {}, ...[
      ["Candidate", ""], ["Cost", "num"], ["Predicted TTFT", ""], ["Cached", "num"], ["Under way", "num"], ["Backlog", "num"], ["Others wait", "num"],
    ].map(([title, kind]) => h("th", { scope: "col", class: kind! }, title!)))), this.#body);
    this.#key = h("p", { class: "key", "aria-label": "Parts of the predicted time to first token" }, ...[["slot", "waits for a slot"], ["queue", "prompts ahead"], ["prefill", "its own prefill"], ["always", "what every request needs"]]
      .map(([part, text]) => h("span", {}, h("span", { class: `part part-${part!} swatch`, "aria-hidden": "true" }), text!)));
    this.element = h("section", { class: "card detail", "aria-label": "One decision" },
      h("a", { class: "back", href: "#/decisions" }, "← all decisions"), this.#title, this.#why,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Candidates" }, this.#table), this.#key, this.#outcome);
    this.show(null);
  }

  show(decision: Decision | null): void {
    const key = JSON.stringify(decision);
    if (key === this.#shown) return;
    this.#shown = key;
    this.#table.hidden = this.#key.hidden = decision === null;
    if (decision === null) {
      setText(this.#title, "Why this worker");
      setText(this.#why, "Each routed request appears in the list with every worker that could have taken it and what it would have cost there.");
      setText(this.#outcome, "");
      return;
    }
    setText(this.#title, `${decision.request}, ${modeName(decision.mode)} routing`);
    setText(this.#why, why(decision));
    setText(this.#outcome, `${outcomeText(decision)}${decision.left_out ? ` ${count(decision.left_out)} further candidates were not kept.` : ""}`);
    const most = Math.max(0, ...decision.candidates.map((candidate) => candidate.forecast?.ttft_ms ?? 0));
    replaceChildren(this.#body, ...[...decision.candidates].sort(byCost).map((candidate) => candidateRow(decision, candidate, most)));
  }
}
