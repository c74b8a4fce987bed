// One worker's figures as cells of a table row, which narrow screens show as a card. What is not known says why.
import { h, setAttribute, setText } from "../dom.ts";
import { compact, count, decimal, duration, isKnown, type Known, milliseconds, UNKNOWN } from "../format.ts";
import type { Worker } from "../protocol/messages.ts";
import { kvShare } from "../store.ts";

interface Shown {
  text: string;
  /** 0 to 1: a bar below the text. */
  share?: number | null;
  /** Why it is not known, or what it means. */
  title?: string;
  tone?: "warn" | "bad" | undefined;
}

export interface Cell {
  title: string;
  help: string;
  show(worker: Worker): Shown;
}

const NOT_READ = "its metrics could not be read within the last 5 s";

function because(worker: Worker, otherwise: string): string {
  return worker.answers ? otherwise : NOT_READ;
}

function plain(value: Known, text: string, worker: Worker, why: string): Shown {
  return isKnown(value) ? { text } : { text: UNKNOWN, title: because(worker, why) };
}

const percentText = (value: Known): string => (isKnown(value) ? `${value.toFixed(1)} %` : UNKNOWN);

function slots(worker: Worker): Shown {
  if (!isKnown(worker.slots_used)) return { text: UNKNOWN, title: because(worker, "it does not tell how many requests it computes") };
  if (!isKnown(worker.slots)) return { text: `${count(worker.slots_used)} of ${UNKNOWN}`, title: "the size of its batch is not known: it does not tell it, and it is not configured" };
  const share = worker.slots_used / worker.slots;
  const source = worker.slots_source === "inferred" ? "the number of slots is inferred from what it was seen to take" : `slots ${worker.slots_source ?? ""}`;
  return { text: `${count(worker.slots_used)} of ${count(worker.slots)}`, share, title: source, tone: share >= 1 ? "warn" : undefined };
}

function memory(worker: Worker): Shown {
  const share = kvShare(worker);
  if (share === null) return { text: UNKNOWN, title: because(worker, "it does not tell its KV memory") };
  const blocks = isKnown(worker.kv_blocks_used) ? `${compact(worker.kv_blocks_used)} of ${compact(worker.kv_blocks)}` : percentText(100 * share);
  return { text: blocks, share, title: `${percentText(100 * share)} of its KV blocks belong to requests under way`, tone: share > 0.95 ? "bad" : share > 0.85 ? "warn" : undefined };
}

const TRUST: Record<string, string> = {
  exact: "its KV events say exactly what it caches", predicted: "no complete events: the gateway goes by what it sent there", none: "the gateway knows nothing of its cache",
};

function trust(worker: Worker): Shown {
  if (worker.index_trust === null) return { text: UNKNOWN, title: worker.state === "unknown" ? "the gateway does not answer" : "the gateway keeps no index of it" };
  const known = `${TRUST[worker.index_trust] ?? worker.index_trust}; ${compact(worker.indexed_blocks)} blocks in the index`;
  return { text: worker.index_trust, title: known, tone: worker.index_trust === "exact" ? undefined : "warn" };
}

function lastEvent(worker: Worker): Shown {
  if (!isKnown(worker.last_event_s)) return { text: UNKNOWN, title: "none of its KV events was seen" };
  return { text: worker.last_event_s < 1 ? "now" : duration(worker.last_event_s), title: "since its last KV event arrived" };
}

export const CELLS: readonly Cell[] = [
  { title: "Batch slots", help: "requests in its batch, of how many it takes at once", show: slots },
  { title: "Queue", help: "requests that wait for a slot", show: (w) => ({ ...plain(w.queue, count(w.queue), w, "it does not tell its queue"), tone: (w.queue ?? 0) > 0 ? "warn" : undefined }) },
  { title: "KV blocks", help: "blocks of requests under way, of its memory", show: memory },
  { title: "Evictions", help: "blocks that lost their place, per second", show: (w) => plain(w.evictions_per_s, `${decimal(w.evictions_per_s)}/s`, w, "it does not tell its evictions") },
  { title: "Hit rate", help: "of its prefix cache, lately", show: (w) => plain(w.hit_rate_pct, percentText(w.hit_rate_pct), w, "it looked nothing up lately, or does not tell") },
  { title: "Step", help: "mean time of an engine step", show: (w) => plain(w.step_ms, milliseconds(w.step_ms), w, "it made no step lately, or does not tell") },
  { title: "Prefill backlog", help: "prompt tokens still to compute, as the gateway reckons", show: (w) => plain(w.prefill_backlog_tokens, compact(w.prefill_backlog_tokens), w, "the gateway has no account of it") },
  { title: "Accepted", help: "of drafted tokens", show: (w) => plain(w.acceptance_rate_pct, percentText(w.acceptance_rate_pct), w, "it drafts no tokens") },
  { title: "Share", help: "of the requests that ended lately", show: (w) => (isKnown(w.share_pct) ? { text: percentText(w.share_pct), share: w.share_pct / 100 } : { text: UNKNOWN, title: "no request ended lately" }) },
  { title: "Index", help: "how well the gateway knows its cache", show: trust },
  { title: "Last event", help: "since a KV event of it arrived", show: lastEvent },
];

export class WorkerCell {
  readonly element = h("td", { class: "num" });
  readonly #text = h("span", {});
  readonly #fill = h("span", { class: "bar-fill" });
  readonly #bar = h("span", { class: "bar", "aria-hidden": "true" }, this.#fill);

  constructor(private readonly cell: Cell) {
    this.element.dataset["label"] = cell.title;
    this.element.append(this.#text, this.#bar);
  }

  show(worker: Worker): void {
    const { text, share, title, tone } = this.cell.show(worker);
    setText(this.#text, text);
    setAttribute(this.element, "title", title);
    setAttribute(this.element, "data-tone", tone);
    this.#bar.hidden = share === undefined || share === null;
    if (isKnown(share)) this.#fill.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
  }
}
