// Figures of stored runs in words: their values, and the change from one run to another.
import { decimal, isKnown, milliseconds, UNKNOWN } from "./format.ts";
import type { Comparison, RunFigure } from "./protocol/answers.ts";

export function figureText(figure: RunFigure): (value: number) => string {
  if (figure.unit === "ms") return milliseconds;
  return (value) => (figure.unit === "%" ? `${decimal(value)} %` : decimal(value));
}

const COLUMNS = ["ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "itl_p95_ms", "output_tokens_per_s", "hit_rate_pct", "error_pct"];

/** Of a run's figures those that its tables have. */
export function tableFigures(figures: readonly RunFigure[]): RunFigure[] {
  return figures.filter((figure) => COLUMNS.includes(figure.figure));
}

type Compared = Comparison["levels"][number]["figures"] extends Map<string, infer T> ? T : never;

/** "−48.1 %", and of percentages "+2.3 points", as kvist report compare --runs says it. */
export function changeText(figure: RunFigure, found: Compared | undefined): string {
  if (!isKnown(found?.change)) return UNKNOWN;
  const unit = figure.unit === "%" ? "points" : "%";
  return `${signed(found.change)} ${unit}`;
}

/** "271 ms → 223 ms, −48.1 % (−50.2 to −46.0): better". */
export function changeTitle(figure: RunFigure, found: Compared | undefined): string {
  const values = isKnown(found?.baseline) && isKnown(found?.candidate) ? `${figureText(figure)(found.baseline)} → ${figureText(figure)(found.candidate)}` : "";
  if (!isKnown(found?.change)) return [values, "not compared: too many errors, or something speaks against it (kvist report compare --runs says what)"].filter(Boolean).join("; ");
  if (!isKnown(found.low) || !isKnown(found.high)) return `${values}; no interval is known, so nothing is said of better or worse`;
  return `${values}, 95 % interval of the change ${signed(found.low)} to ${signed(found.high)}: ${found.verdict ?? "open"}`;
}

function signed(value: number): string {
  const text = Math.abs(value).toFixed(1);
  return text === "0.0" ? text : `${value < 0 ? "−" : "+"}${text}`;
}
