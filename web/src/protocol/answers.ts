// Answers to the page's questions: history and stored runs (docs/formats/dashboard.md).
import { type Reader, type Shaped, flag, list, mapOf, number, object, optional, text } from "./read.ts";
import { conversation } from "./topics.ts";

const column: Reader<(number | null)[]> = list(optional(number));
const columns = mapOf(column);

export const liveHistory = object({ step_s: number, t_ms: list(number), series: columns });
export const workersHistory = object({ step_s: number, t_ms: list(number), workers: mapOf(columns) });

const runSummary = {
  run: text,
  file: optional(text),
  name: text,
  started_utc: optional(text),
  finished: flag,
  simulated: flag,
  time_scale: optional(number),
  modes: list(text),
  concurrencies: list(number),
  levels: number,
  workload: optional(text),
};

const estimate = object({ value: optional(number), low: optional(number), high: optional(number) });

const runLevel = object({
  concurrency: number,
  repetitions: optional(number),
  excluded: optional(flag),
  figures: mapOf(optional(estimate)),
  level_ids: list(number),
  level_repetitions: optional(list(number)),
  verdict: optional(text),
  remarks: list(text),
});

const figure = object({ figure: text, title: text, unit: text, lower_is_better: optional(flag) });

export const runs = object({ runs: list(object(runSummary)), problems: optional(list(text)) });
export const run = object({
  ...runSummary,
  figures: list(figure),
  modes: list(object({ mode: text, title: text, levels: list(runLevel) })),
  files: list(text),
});

export const level = object({
  run: text,
  level: number,
  mode: text,
  concurrency: number,
  repetition: optional(number),
  t_s: list(number),
  series: columns,
  measure_from_s: optional(number),
  measure_to_s: optional(number),
  workers: optional(mapOf(columns)),
  worker_t_s: optional(list(number)),
  conversations_total: optional(number),
  conversations: list(conversation),
});

const compared = object({
  baseline: optional(number), candidate: optional(number), change: optional(number), low: optional(number), high: optional(number), verdict: optional(text),
});

export const comparison = object({
  baseline: text,
  candidate: text,
  levels: list(object({ mode: text, concurrency: number, figures: mapOf(compared) })),
});

export type LiveHistory = Shaped<{ x: typeof liveHistory }>["x"];
export type WorkersHistory = Shaped<{ x: typeof workersHistory }>["x"];
export type RunSummary = Shaped<typeof runSummary>;
export type Run = Shaped<{ x: typeof run }>["x"];
export type RunLevel = Shaped<{ x: typeof runLevel }>["x"];
export type RunFigure = Shaped<{ x: typeof figure }>["x"];
export type LevelOverTime = Shaped<{ x: typeof level }>["x"];
export type Comparison = Shaped<{ x: typeof comparison }>["x"];
