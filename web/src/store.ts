// What the page knows, made of the server's messages alone; no DOM, no socket, no clock.
import { atConcurrency, figureKey, levelsOf, QUANTITIES } from "./baseline.ts";
import type { Baseline, Hello, LoadEvent, Message, Sample, Sweep, Worker } from "./protocol/messages.ts";
import type { LiveHistory } from "./protocol/answers.ts";
import type { ConversationsMessage, DecisionsMessage } from "./protocol/topics.ts";
import { type Row, Series } from "./series.ts";

export type Connection =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "lost"; retryAtMs: number; attempts: number; reason: string }
  | { state: "refused"; reason: string };

const DAY_S = 86_400;
const WORKER_HISTORY_S = 1800;
const MOST_WORKERS = 64;
const MOST_EVENTS = 512;
/** A line breaks where samples are missing for longer than this. */
const GAP_S = 3.5;

export const WORKER_KEYS = ["slots_used", "queue", "in_flight", "kv_blocks_used", "hit_rate_pct", "step_ms", "share_pct", "output_tokens_per_s"] as const;
export type WorkerKey = (typeof WORKER_KEYS)[number];

export function workerColumn(worker: string, key: WorkerKey): string {
  return `${key}\n${worker}`;
}

/** Baseline figures have a column beside the live ones, by the load at each sample. */
export function baselineColumn(figure: string): string {
  return `baseline ${figure}`;
}

export const BASELINE_FIGURES = [
  ...QUANTITIES.flatMap((quantity) => [figureKey(quantity.key, "p50"), figureKey(quantity.key, "p95")]),
  "output_tokens_per_s", "turns_per_s", "conversation_starts_per_s", "hit_rate_pct", "error_pct",
];

export class Store {
  connection: Connection = { state: "connecting" };
  hello: Hello | null = null;
  sample: Sample | null = null;
  baseline: Baseline | null = null;
  baselineMode: string | null = null;
  events: LoadEvent[] = [];
  sweep: Sweep | null = null;
  conversations: ConversationsMessage | null = null;
  decisions: DecisionsMessage | null = null;
  readonly live = new Series(DAY_S);
  readonly workers = new Series(WORKER_HISTORY_S);
  /** Samples that the server left out since the history was last read. */
  skipped = 0;

  apply(message: Message): void {
    switch (message.type) {
      case "hello":
        this.#greet(message.hello);
        break;
      case "baseline":
        this.#take(message.baseline);
        break;
      case "sample":
        this.#add(message.sample);
        break;
      case "events":
        this.#addEvents(message.events);
        break;
      case "sweep":
        this.sweep = message.sweep;
        break;
      case "conversations":
        this.conversations = message.conversations;
        break;
      case "decisions":
        this.decisions = message.decisions;
        break;
      case "reply":
        break;  // belongs to who asked
    }
  }

  /** The past as the server kept it, the finest first; what came in the meantime stays. */
  takeHistory(tiers: readonly LiveHistory[]): void {
    const past: { time: number; row: Row; step: number }[] = [];
    let before = Infinity;
    let first = Infinity;
    for (const tier of [...tiers].sort((a, b) => a.step_s - b.step_s)) {
      // A coarse step in which the server began has nothing that the finer ones lack, and would be drawn where it was not there yet.
      const rows = historyRows(tier).filter(({ time }, i) => time < before && (i > 0 || time + tier.step_s <= first));
      if (rows.length > 0) {
        first = rows[0]!.time;
        before = first - tier.step_s / 2;
      }
      past.unshift(...rows.map(({ time, row }) => ({ time, row, step: tier.step_s })));
    }
    const since = this.live.rowsAfter(past.length > 0 ? past[past.length - 1]!.time : -Infinity);
    this.live.clear();
    let coarser = 1;  // between two tiers the distance is that of the coarser
    for (const { time, row, step } of [...past, ...since.map((entry) => ({ ...entry, step: 1 }))]) {
      this.live.append(time, row, GAP_S * Math.max(step, coarser));
      coarser = step;
    }
    this.skipped = 0;
  }

  setBaselineMode(mode: string): void {
    this.baselineMode = mode;
    this.#deriveBaseline();
  }

  /** The baseline at the load of now as the server says, in the mode that is compared with. */
  baselineNow() {
    return this.baselineMode === null ? null : this.sample?.baseline?.get(this.baselineMode) ?? null;
  }

  running(): boolean {
    const state = this.sample?.load?.state;
    return state === "running" || state === "draining";
  }

  #greet(hello: Hello): void {
    if (this.hello && this.hello.server_id !== hello.server_id) {
      this.sample = null;
      this.events = [];
      this.sweep = null;
      this.conversations = null;
      this.decisions = null;
      this.live.clear();
      this.workers.clear();
    }
    this.hello = hello;
  }

  #take(baseline: Baseline | null): void {
    this.baseline = baseline;
    const kept = baseline?.modes.some((entry) => entry.mode === this.baselineMode);
    if (!kept) this.baselineMode = baseline?.default_mode ?? baseline?.modes[0]?.mode ?? null;
    this.#deriveBaseline();
  }

  #deriveBaseline(): void {
    const levels = levelsOf(this.baseline, this.baselineMode);
    let known = NaN;
    let at: ReturnType<typeof atConcurrency> = null;
    for (const figure of BASELINE_FIGURES) {
      this.live.derive(baselineColumn(figure), (row) => {
        const concurrency = row("concurrency");
        if (concurrency !== known) {
          known = concurrency;
          at = atConcurrency(levels, concurrency);
        }
        return at?.figures[figure] ?? NaN;
      });
    }
  }

  #add(sample: Sample): void {
    if (this.sample && sample.seq > this.sample.seq + 1) this.skipped += sample.seq - this.sample.seq - 1;
    this.sample = sample;
    const time = sample.t_ms / 1000;
    this.live.append(time, { ...sample.live, concurrency: sample.load?.concurrency, running: this.running() ? 1 : 0 }, GAP_S);
    if (!sample.workers) return;
    const row: Record<string, number | null> = {};
    for (const worker of sample.workers.slice(0, MOST_WORKERS)) {
      for (const key of WORKER_KEYS) row[workerColumn(worker.name, key)] = worker[key];
    }
    this.workers.append(time, row, GAP_S);
  }

  #addEvents(events: readonly LoadEvent[]): void {
    const seen = new Set(this.events.map((event) => event.seq));
    this.events = [...this.events, ...events.filter((event) => !seen.has(event.seq))].sort((a, b) => a.seq - b.seq).slice(-MOST_EVENTS);
  }
}

export function historyRows(history: LiveHistory): { time: number; row: Row }[] {
  return history.t_ms.map((t, i) => {
    const row: Record<string, number | null> = {};
    for (const [key, values] of history.series) row[key] = values[i] ?? null;
    return { time: t / 1000, row };
  });
}

/** Shares of memory: from the blocks where they are known, else the share that the engine reports. */
export function kvShare(worker: Worker): number | null {
  if (worker.kv_blocks_used !== null && worker.kv_blocks !== null && worker.kv_blocks > 0) return worker.kv_blocks_used / worker.kv_blocks;
  return worker.kv_usage_pct === null ? null : worker.kv_usage_pct / 100;
}

/** Empty while it answers, or where there is none. */
export function gatewayText(gateway: { url: string; reached: boolean; problem: string } | null): string {
  if (gateway === null || gateway.reached) return "";
  return `The gateway ${gateway.url} does not answer${gateway.problem === "" ? "" : `: ${gateway.problem}`}. What it knew of its workers is not known now.`;
}
