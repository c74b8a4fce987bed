// What the server sends by itself (docs/formats/dashboard.md).
import { type Shaped, figures, flag, list, mapOf, number, object, optional, text, word, Malformed, type Figures } from "./read.ts";
import { conversationsMessage, decisionsMessage, type ConversationsMessage, type DecisionsMessage } from "./topics.ts";

const range = object({ min: number, max: number, live: flag });

const controls = object({
  start: flag,
  stop: flag,
  concurrency: optional(range),
  rate_per_s: optional(range),
  modes: optional(list(text)),
  token_required: flag,
});

const slo = object({ figure: text, limit: number, warn: number, is_least: flag });

const hello = object({
  protocol: number,
  version: text,
  server_id: text,
  source: word("up", "loadgen", "sweep", "gateway", "stored", "other"),
  title: text,
  target: optional(text),
  model: optional(text),
  now_ms: number,
  window_s: number,
  time_scale: optional(number),
  has: mapOf(flag),
  controls: optional(controls),
  slo: list(slo),
  history: list(object({ step_s: number, length_s: number })),
});

const load = object({
  state: word("running", "draining", "idle"),
  concurrency: optional(number),
  rate_per_s: optional(number),
  open: flag,
  seed: optional(number),
  started_ms: optional(number),
  turns_succeeded: optional(number),
  turns_failed: optional(number),
  turns_abandoned: optional(number),
  conversations_started: optional(number),
  output_tokens: optional(number),
  next: optional(object({ concurrency: optional(number), rate_per_s: optional(number) })),
});

const worker = object({
  name: text,
  model: optional(text),
  state: text,
  problem: optional(text),
  answers: flag,
  slots_used: optional(number),
  slots: optional(number),
  slots_source: optional(text),
  queue: optional(number),
  in_flight: optional(number),
  kv_blocks_used: optional(number),
  kv_blocks: optional(number),
  kv_usage_pct: optional(number),
  evictions_per_s: optional(number),
  evictions: optional(number),
  preemptions: optional(number),
  hit_rate_pct: optional(number),
  step_ms: optional(number),
  prefill_backlog_tokens: optional(number),
  acceptance_rate_pct: optional(number),
  output_tokens_per_s: optional(number),
  share_pct: optional(number),
  index_trust: optional(text),
  indexed_blocks: optional(number),
  last_event_s: optional(number),
  restarts: optional(number),
});

const progress = object({
  state: word("starting", "running", "finished", "failed"),
  position: optional(number),
  phase: optional(text),
  progress: number,
  estimated_end_ms: optional(number),
});

const baselineAtLoad = object({ figures, interpolated: flag, between: list(number) });

const sample = object({
  seq: number,
  t_ms: number,
  load: optional(load),
  mode: optional(text),
  gateway: optional(object({ url: text, reached: flag, problem: text })),
  live: figures,
  baseline: optional(mapOf(optional(baselineAtLoad))),
  workers: optional(list(worker)),
  sweep: optional(progress),
  client: optional(object({ loop_delay_p99_ms: optional(number), loop_delay_max_ms: optional(number) })),
});

const baselineLevel = object({ concurrency: number, figures });

const baseline = object({
  title: text,
  source: text,
  kind: text,
  time_factor: number,
  default_mode: optional(text),
  modes: list(object({ mode: text, levels: list(baselineLevel) })),
});

const event = object({
  seq: number,
  t_ms: number,
  kind: text,
  text,
  worker: optional(text),
  from: optional(text),
  to: optional(text),
});

const plannedLevel = object({
  mode: text,
  concurrency: optional(number),
  repetition: number,
  state: word("done", "running", "failed", "planned"),
  started_ms: optional(number),
  ended_ms: optional(number),
  figures: optional(figures),
});

const sweep = object({
  name: text,
  state: word("starting", "running", "finished", "failed"),
  problem: text,
  run: optional(text),
  position: optional(number),
  phase: optional(text),
  progress: number,
  estimated_end_ms: optional(number),
  levels: list(plannedLevel),
});

const reply = object({ id: number, ok: flag, error: optional(text) });

export type Hello = Shaped<{ x: typeof hello }>["x"];
export type Controls = Shaped<{ x: typeof controls }>["x"];
export type ControlRange = Shaped<{ x: typeof range }>["x"];
export type Slo = Shaped<{ x: typeof slo }>["x"];
export type Load = Shaped<{ x: typeof load }>["x"];
export type Worker = Shaped<{ x: typeof worker }>["x"];
export type Sample = Shaped<{ x: typeof sample }>["x"];
export type Baseline = Shaped<{ x: typeof baseline }>["x"];
export type BaselineLevel = Shaped<{ x: typeof baselineLevel }>["x"];
export type LoadEvent = Shaped<{ x: typeof event }>["x"];
export type PlannedLevel = Shaped<{ x: typeof plannedLevel }>["x"];
export type SweepProgress = Shaped<{ x: typeof progress }>["x"];
export type Sweep = Shaped<{ x: typeof sweep }>["x"];
export type { Figures };

export type Message =
  | { type: "hello"; hello: Hello }
  | { type: "sample"; sample: Sample }
  | { type: "baseline"; baseline: Baseline | null }
  | { type: "events"; events: LoadEvent[] }
  | { type: "sweep"; sweep: Sweep }
  | { type: "reply"; id: number; ok: boolean; error: string | null; result: unknown }
  | { type: "conversations"; conversations: ConversationsMessage }
  | { type: "decisions"; decisions: DecisionsMessage };

/** The message in a frame; null for a type that this page does not know. Throws Malformed. */
export function parseMessage(frame: string): Message | null {
  let value: Record<string, unknown>;
  try {
    value = JSON.parse(frame) as Record<string, unknown>;
  } catch {
    throw new Malformed("the message is not JSON");
  }
  switch (text(value["type"], "type")) {
    case "hello":
      return { type: "hello", hello: hello(value, "") };
    case "sample":
      return { type: "sample", sample: sample(value, "") };
    case "baseline":
      return { type: "baseline", baseline: optional(baseline)(value["baseline"], "baseline") };
    case "events":
      return { type: "events", events: list(event)(value["events"], "events") };
    case "sweep":
      return { type: "sweep", sweep: sweep(value, "") };
    case "reply": {
      const { id, ok, error } = reply(value, "");
      return { type: "reply", id, ok, error, result: value["result"] };
    }
    case "conversations":
      return { type: "conversations", conversations: conversationsMessage(value, "") };
    case "decisions":
      return { type: "decisions", decisions: decisionsMessage(value, "") };
    default:
      return null;
  }
}
