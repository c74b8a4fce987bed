// Messages as docs/formats/dashboard.md has them, made up for unit tests and for looking at the page without a server. Deterministic.

export const NOW_MS = 1_770_000_000_000;
const WORKERS = ["worker-0", "worker-1", "worker-2"];

/** A wave with some noise that is the same at each run. */
function wave(t: number, seed: number): number {
  const noise = Math.sin(t * 12.9898 + seed * 78.233) * 43758.5453;
  return 0.7 * Math.sin(t / 41 + seed) + 0.6 * (noise - Math.floor(noise) - 0.5);
}

export function hello(changes: Record<string, unknown> = {}) {
  return {
    type: "hello", protocol: 1, version: "0.1.0", server_id: "server-1", source: "up", title: "three-timed-workers", target: "http://127.0.0.1:8080", model: "kvist-timed", now_ms: NOW_MS,
    window_s: 30, time_scale: 2, has: { live: true, workers: true, conversations: true, decisions: true, sweep: false, runs: true },
    controls: {
      start: true, stop: true, concurrency: { min: 1, max: 4096, live: true }, rate_per_s: { min: 0, max: 1000, live: true },
      modes: ["round_robin", "random", "least_loaded", "power_of_two", "kv", "dynamo"], token_required: false,
    },
    slo: [{ figure: "ttft_p95_ms", limit: 250, warn: 200, is_least: false }, { figure: "error_pct", limit: 5, warn: 1, is_least: false }, { figure: "itl_p95_ms", limit: 40, warn: 32, is_least: false }],
    history: [{ step_s: 1, length_s: 1800 }, { step_s: 10, length_s: 14_400 }, { step_s: 60, length_s: 86_400 }],
    ...changes,
  };
}

function level(concurrency: number, factor: number) {
  return {
    concurrency,
    figures: {
      ttft_p50_ms: 26 + concurrency * 0.2 * factor, ttft_p95_ms: 60 + concurrency * 2.4 * factor, tpot_p50_ms: 11 + concurrency * 0.045, tpot_p95_ms: 11.6 + concurrency * 0.07,
      itl_p50_ms: 11 + concurrency * 0.03, itl_p95_ms: 11.2 + concurrency * 0.09, latency_p50_ms: 2200 + concurrency * 12, latency_p95_ms: 3100 + concurrency * 19,
      output_tokens_per_s: 82 * concurrency, hit_rate_pct: 84, turns_per_s: concurrency / 9,
    },
  };
}

export function baseline() {
  return {
    type: "baseline",
    baseline: {
      title: "demo sweep", source: "results.sqlite", kind: "results", time_factor: 1, default_mode: "round_robin",
      modes: [{ mode: "round_robin", levels: [12, 24, 36].map((c) => level(c, 1)) }, { mode: "kv", levels: [12, 24, 36].map((c) => level(c, 0.15)) }],
    },
  };
}

/** The load in the course of the story: 12 users round-robin, then 30, then KV-aware. */
function story(t: number): { concurrency: number; mode: string; factor: number } {
  if (t < 90) return { concurrency: 12, mode: "round_robin", factor: 1 };
  if (t < 190) return { concurrency: 30, mode: "round_robin", factor: 1 };
  const settled = Math.min(1, (t - 190) / 30);
  return { concurrency: 30, mode: "kv", factor: 1 - 0.86 * settled };
}

export function events() {
  const event = (seq: number, t: number, kind: string, text: string, from: string | null, to: string | null) => ({ seq, t_ms: NOW_MS + t * 1000, kind, text, worker: null, from, to });
  return {
    type: "events",
    events: [event(1, 0, "start", "load started with 12 users", null, null), event(2, 90, "concurrency", "12 -> 30 users", "12", "30"), event(3, 190, "mode", "routing mode round_robin -> kv", "round_robin", "kv")],
  };
}

export function live(t: number): Record<string, number | null> {
  const { concurrency, factor } = story(t);
  const at = level(concurrency, factor).figures;
  return {
    ttft_p50_ms: at.ttft_p50_ms * (1 + 0.05 * wave(t, 1)), ttft_p95_ms: at.ttft_p95_ms * (1 + 0.14 * wave(t, 2)) * (0.8 + 0.2 * factor), tpot_p50_ms: at.tpot_p50_ms * (1 + 0.01 * wave(t, 3)),
    tpot_p95_ms: at.tpot_p95_ms * (1 + 0.03 * wave(t, 4)), itl_p50_ms: at.itl_p50_ms * (1 + 0.01 * wave(t, 5)), itl_p95_ms: at.itl_p95_ms * (1 + 0.02 * wave(t, 6)),
    latency_p50_ms: at.latency_p50_ms * (1 + 0.04 * wave(t, 7)), latency_p95_ms: at.latency_p95_ms * (1 + 0.03 * wave(t, 8)), output_tokens_per_s: at.output_tokens_per_s * (1 + 0.06 * wave(t, 9)),
    turns_per_s: at.turns_per_s * (1 + 0.2 * wave(t, 10)), conversation_starts_per_s: at.turns_per_s / 5 * (1 + 0.4 * wave(t, 11)), error_pct: 0, hit_rate_pct: 84 + (1 - factor) * 13 + wave(t, 12),
    in_flight: Math.round(concurrency * (0.9 + 0.1 * wave(t, 13))), queued: Math.max(0, Math.round(2 * factor * wave(t, 14))), imbalance: 1.05 + 0.3 * factor * Math.abs(wave(t, 15)),
  };
}

export function worker(name: string, t: number, changes: Record<string, unknown> = {}) {
  const i = WORKERS.indexOf(name);
  const used = Math.max(1, Math.round(10 + 4 * wave(t, 20 + i)));
  return {
    name, model: "kvist-timed", state: "healthy", problem: "", answers: true, slots_used: used, slots: 64, slots_source: "configured", queue: 0, in_flight: used, kv_blocks_used: 4000 + Math.round(900 * wave(t, 30 + i)),
    kv_blocks: 11_500, kv_usage_pct: null, evictions_per_s: Math.max(0, 3 * wave(t, 40 + i)), evictions: 1200, preemptions: 0, hit_rate_pct: 95 + wave(t, 50 + i), step_ms: 12.1 + 0.3 * wave(t, 60 + i),
    prefill_backlog_tokens: Math.max(0, Math.round(600 * wave(t, 70 + i))), acceptance_rate_pct: null, output_tokens_per_s: 900, share_pct: 33.3 + 3 * wave(t, 80 + i), index_trust: "exact", indexed_blocks: 9120,
    last_event_s: 0.2, restarts: 0, ...changes,
  };
}

export function sample(t: number, changes: Record<string, unknown> = {}) {
  const { concurrency, mode } = story(t);
  return {
    type: "sample", seq: t + 1, t_ms: NOW_MS + t * 1000,
    load: {
      state: "running", concurrency, rate_per_s: null, open: false, seed: 1, started_ms: NOW_MS, turns_succeeded: 10 * t, turns_failed: 0, turns_abandoned: 0, conversations_started: 2 * t, output_tokens: 2000 * t,
      next: { concurrency, rate_per_s: 0 },
    },
    mode, gateway: { url: "http://127.0.0.1:8081", reached: true, problem: "" }, live: live(t),
    baseline: { round_robin: { figures: between(concurrency, 1), interpolated: concurrency === 30, between: concurrency === 30 ? [24, 36] : [12, 12] }, kv: { figures: between(concurrency, 0.15), interpolated: concurrency === 30, between: concurrency === 30 ? [24, 36] : [12, 12] } },
    workers: WORKERS.map((name) => worker(name, t)), sweep: null, client: { loop_delay_p99_ms: 0.4, loop_delay_max_ms: 2.1 }, ...changes,
  };
}

function between(concurrency: number, factor: number) {
  return level(concurrency, factor).figures;  // the levels are linear in it
}

export function history(from: number, to: number, step: number) {
  const at = Array.from({ length: Math.max(0, Math.floor((to - from) / step)) }, (_, i) => from + i * step);
  const rows = at.map((t) => ({ ...live(t), concurrency: story(t).concurrency, running: 1 }) as Record<string, number | null>);
  const series = Object.fromEntries(Object.keys(rows[0] ?? {}).map((key) => [key, rows.map((row) => row[key] ?? null)]));
  return { of: "live", step_s: step, t_ms: at.map((t) => NOW_MS + t * 1000), series };
}

export function conversations() {
  const element = (i: number) => ({
    conversation: `0-${40 - i}`, status: i < 3 ? "active" : i === 7 ? "failed" : "done", turns: 2 + (i % 4), turns_done: 1 + (i % 4), started_ms: NOW_MS + (200 - 4 * i) * 1000, ended_ms: i < 3 ? null : NOW_MS + 240_000,
    duration_ms: 9000 + 700 * i, workers: i % 3 === 0 ? ["worker-1"] : ["worker-0", "worker-2"], ttft_first_ms: 92 + i, ttft_last_ms: 26 + (i % 5), error: i === 7 ? "the stream broke after 41 tokens" : "",
  });
  return { type: "conversations", total: 412, conversations: Array.from({ length: 28 }, (_, i) => element(i)) };
}

export const MARKUP = "<img src=x onerror=\"document.title='owned'\"><b>bold?</b> & <script>alert(1)</script>";

export function conversation(id: string) {
  const turn = (n: number) => ({
    turn: n, status: "succeeded", worker: "worker-1", sent_ms: NOW_MS + n * 5000, ttft_ms: n === 1 ? 118.4 : 27.1 + n, tpot_ms: 11.2, latency_ms: 2300 + 50 * n, prompt_tokens: 1400 + 300 * n, cached_tokens: n === 1 ? 96 : 1350 + 300 * (n - 1),
    output_tokens: 205, predicted_cached_tokens: n === 1 ? 96 : 1344 + 300 * (n - 1),
    messages: [...(n === 1 ? [{ role: "system", text: "You are a helpful guide to rivers, and you answer briefly." }] : []), { role: "user", text: n === 2 ? MARKUP : "Tell me about the rivers that flow into the Baltic Sea, and which of them freeze in winter." }],
    answer: "The Neva, the Vistula and the Daugava are the largest. The Neva froze from December to April in most years of the last century; lately its ice is thinner and comes later.", truncated: false, error: "",
  });
  return { ...conversations().conversations[5]!, conversation: id, status: "done", messages_kept: true, turns_list: [1, 2, 3].map(turn) };
}

export function decisions() {
  const candidate = (n: number, i: number) => ({
    worker: i, name: WORKERS[i]!, cost: 95 + 210 * ((n + i) % 3), trust: "exact", cached_blocks: 40, cached_tokens: (n + i) % 3 === 0 ? 3328 : 256, lower_tier_blocks: 0, affinity_ms: 0, new_blocks: 6, replicate_tokens: 0,
    load: { requests: 9 + i, decoding: 8, prefill_tokens: 400 * i, prompt_blocks: 300, output_tokens: 900, context_tokens: 22_000 }, limits: { block_size: 32, kv_blocks: 11_500, max_batch_size: 64, max_num_tokens: 2048 },
    forecast: { step_ms: 11.4, step_with_ms: 11.5, slot_wait_ms: 0, queue_ms: 18 * i, prefill_ms: (n + i) % 3 === 0 ? 11 : 146, fleet_prefill_ms: 140, lost_tokens: 0, displaced_ms: 2, held_up_ms: 4, ttft_ms: 26 + 18 * i + ((n + i) % 3 === 0 ? 11 : 146), crowding_ms: 0.3 + 0.1 * i, answer_tokens: 200, mean_requests: 9, known: 1, error: 0.04, has_slot: true, scarce: false },
  });
  const decision = (n: number) => ({
    request: `loadgen-1-${n}-2`, internal_id: n, number: 900 - n, at_s: 100, t_ms: NOW_MS + (240 - n) * 1000, mode: "kv", chosen: (3 - (n % 3)) % 3, chosen_name: WORKERS[(3 - (n % 3)) % 3]!, reason: "policy", prompt_tokens: 3456, prompt_blocks: 108, block_size: 32, left_out: 0,
    candidates: WORKERS.map((_, i) => candidate(n, i)), after: n < 2 ? { state: "under_way", ttft_ms: null, cached_tokens: null, output_tokens: 0, duration_ms: null } : { state: "completed", ttft_ms: 39 + (n % 7), cached_tokens: 3328, output_tokens: 190, duration_ms: 2210 },
  });
  return { type: "decisions", total: 900, problem: "", decisions: Array.from({ length: 30 }, (_, n) => decision(n)) };
}

const FIGURES = [["ttft_p50_ms", "TTFT p50", "ms", true], ["ttft_p95_ms", "TTFT p95", "ms", true], ["tpot_p50_ms", "TPOT p50", "ms", true], ["tpot_p95_ms", "TPOT p95", "ms", true], ["itl_p95_ms", "ITL p95", "ms", true], ["latency_p95_ms", "Latency p95", "ms", true], ["output_tokens_per_s", "Output tokens per second", "tokens/s", false], ["hit_rate_pct", "Cache hit rate", "%", false]] as const;

export function runs() {
  const element = (i: number) => ({ run: `run-${i}`, file: "results.sqlite", name: i === 0 ? "demo" : "demo, smaller memory", started_utc: `2026-03-0${i + 1}T10:20:30Z`, finished: true, simulated: i === 1, time_scale: 2, modes: ["round_robin", "kv"], concurrencies: [12, 24, 36], levels: 6, workload: "chats of 2 to 8 turns, 1,200 tokens of system prompt" });
  return { runs: [element(0), element(1)] };
}

export function run(id: string) {
  const other = id === "run-1" ? 1.2 : 1;
  const measured = (c: number, mode: string) => ({
    concurrency: c, repetitions: 1, excluded: false, level_ids: [c + (mode === "kv" ? 1 : 0)], verdict: "valid", remarks: [],
    figures: Object.fromEntries(Object.entries(level(c, mode === "kv" ? 0.15 : 1).figures).map(([key, value]) => [key, { value: value * other, low: value * other * 0.93, high: value * other * 1.09 }])),
  });
  return {
    ...runs().runs.find((entry) => entry.run === id)!,
    figures: FIGURES.map(([figure, title, unit, lower_is_better]) => ({ figure, title, unit, lower_is_better })),
    modes: [["round_robin", "Round-robin"], ["kv", "KV-aware"]].map(([mode, title]) => ({ mode: mode!, title: title!, levels: [12, 24, 36].map((c) => measured(c, mode!)) })),
    files: ["report.md", "report.json", "report.html", "levels.csv", ...FIGURES.map(([figure]) => `${figure}.svg`)],
  };
}

export function compare(baselineRun: string, candidate: string) {
  const levels = ["round_robin", "kv"].flatMap((mode) => [12, 24, 36].map((concurrency) => ({ mode, concurrency, figures: { ttft_p50_ms: { baseline: 32, candidate: 27, ratio: 0.84, change: -15.6, low: -17.2, high: -14.1, verdict: "better" }, ttft_p95_ms: { baseline: 120, candidate: 131, ratio: 1.09, change: 9.2, low: null, high: null, verdict: "open" }, hit_rate_pct: { baseline: 86.4, candidate: 88.7, ratio: 1.03, change: 2.3, low: 2.1, high: 2.5, verdict: "better" } } })));
  return { baseline: baselineRun, candidate, levels };
}

export function levelOverTime(run: string, number: number) {
  const t_s = Array.from({ length: 120 }, (_, i) => i);
  const rows = t_s.map((t) => live(t));
  return {
    run, level: number, mode: "kv", concurrency: 24, repetition: 0, t_s, series: Object.fromEntries(Object.keys(rows[0]!).map((key) => [key, rows.map((row) => row[key] ?? null)])), measure_from_s: 20, measure_to_s: 100,
    workers: Object.fromEntries(WORKERS.map((name) => [name, { in_flight: t_s.map((t) => worker(name, t).in_flight) }])), worker_t_s: t_s, conversations: ["0-1", "0-2"].map((id) => ({ ...conversation(id), messages_kept: false, turns_list: conversation(id).turns_list.map((turn) => ({ ...turn, messages: null, answer: null })) })),
  };
}

export function sweep() {
  const planned = ["round_robin", "kv"].flatMap((mode) => [12, 24, 36].map((concurrency) => ({ mode, concurrency })));
  return {
    type: "sweep", name: "demo", state: "running", problem: "", run: "run-0", position: 2, phase: "measuring", progress: 0.41, estimated_end_ms: NOW_MS + 500_000,
    levels: planned.map((entry, i) => ({ ...entry, repetition: 0, state: i < 2 ? "done" : i === 2 ? "running" : "planned", started_ms: i < 3 ? NOW_MS + 60_000 * i : null, ended_ms: i < 2 ? NOW_MS + 60_000 * i + 52_000 : null, figures: i < 2 ? level(entry.concurrency, 1).figures : null })),
  };
}

/** The answer to a question of the page, as the server at second `now` of the story would give it. */
export function answer(command: Record<string, unknown>, now: number): unknown {
  switch (command["command"]) {
    case "history": {
      const length = Number(command["window_s"]);
      const step = length <= 1800 ? 1 : length <= 14_400 ? 10 : 60;
      if (command["of"] === "live") return history(Math.max(0, now - length), now, step);
      const t_ms = Array.from({ length: now }, (_, i) => NOW_MS + i * 1000);
      const of = (name: string) => Object.fromEntries((["in_flight", "queue", "kv_blocks_used", "hit_rate_pct"] as const).map((key) => [key, t_ms.map((_, t) => worker(name, t)[key])]));
      return { of: "workers", step_s: 1, t_ms, workers: Object.fromEntries(WORKERS.map((name) => [name, of(name)])) };
    }
    case "conversation":
      return conversation(String(command["conversation"]));
    case "runs":
      return runs();
    case "run":
      return run(String(command["run"]));
    case "level":
      return levelOverTime(String(command["run"]), Number(command["level"]));
    case "compare":
      return compare(String(command["baseline"]), String(command["candidate"]));
    default:
      return {};
  }
}
