// The recorded baseline at a load, the SLOs, and what the difference between now and then is in words.
import { milliseconds, modeName, percent } from "./format.ts";
import type { Baseline, BaselineLevel, Figures, Slo } from "./protocol/messages.ts";

/** The figures over time that the first view draws, by quantity. */
export const QUANTITIES = [
  { key: "ttft", title: "TTFT", long: "time to first token" },
  { key: "tpot", title: "TPOT", long: "time per output token" },
  { key: "itl", title: "ITL", long: "inter-token latency" },
  { key: "latency", title: "Latency", long: "of complete answers" },
] as const;

export type Quantity = (typeof QUANTITIES)[number]["key"];
export type Quantile = "p50" | "p95";

export function figureKey(quantity: Quantity, quantile: Quantile): string {
  return `${quantity}_${quantile}_ms`;
}

export function figureTitle(quantity: Quantity, quantile: Quantile): string {
  return `${QUANTITIES.find((entry) => entry.key === quantity)!.title} ${quantile}`;
}

export interface AtLoad {
  figures: Figures;
  interpolated: boolean;
  between: readonly number[];
}

/** Linear between the two neighbouring levels, figure by figure; null outside of the levels. */
export function atConcurrency(levels: readonly BaselineLevel[], concurrency: number): AtLoad | null {
  const above = levels.findIndex((level) => level.concurrency >= concurrency);
  if (above < 0 || Number.isNaN(concurrency)) return null;
  const high = levels[above]!;
  if (high.concurrency === concurrency) return { figures: high.figures, interpolated: false, between: [concurrency, concurrency] };
  const low = levels[above - 1];
  if (!low) return null;
  const share = (concurrency - low.concurrency) / (high.concurrency - low.concurrency);
  const figures: Figures = {};
  for (const [key, from] of Object.entries(low.figures)) {
    const to = high.figures[key];
    if (from !== undefined && to !== undefined) figures[key] = from + share * (to - from);
  }
  return { figures, interpolated: true, between: [low.concurrency, high.concurrency] };
}

export function levelsOf(baseline: Baseline | null, mode: string | null): readonly BaselineLevel[] {
  return baseline?.modes.find((entry) => entry.mode === mode)?.levels ?? [];
}

export type Grade = "good" | "warn" | "bad" | "none";

/** How a figure stands to its SLO; "none" without one. */
export function grade(slos: readonly Slo[], figure: string, value: number | null | undefined): Grade {
  const slo = slos.find((entry) => entry.figure === figure);
  if (!slo || value === null || value === undefined) return "none";
  if (slo.is_least) return value < slo.limit ? "bad" : value <= slo.warn ? "warn" : "good";
  return value > slo.limit ? "bad" : value >= slo.warn ? "warn" : "good";
}

/** A difference below this share is none that anybody would notice. */
const SAME = 0.03;

export interface Difference {
  /** now / then - 1 */
  share: number;
  verdict: "better" | "worse" | "same";
}

/** Of a figure that is better when lower. */
export function difference(now: number | null | undefined, then: number | null | undefined): Difference | null {
  if (now === null || now === undefined || then === null || then === undefined || then <= 0) return null;
  const share = now / then - 1;
  return { share, verdict: Math.abs(share) < SAME ? "same" : share < 0 ? "better" : "worse" };
}

export function differenceText(found: Difference | null): string {
  if (!found) return "–";
  if (Math.abs(found.share) < 0.005) return "equal";
  if (found.share > 2) return `${(found.share + 1).toFixed(1)} times`;
  const size = percent(Math.abs(found.share), 0);
  return found.share < 0 ? `${size} below` : `${size} above`;
}

export interface Situation {
  running: boolean;
  mode: string | null;
  baselineMode: string | null;
  concurrency: number | null;
  now: number | null;
  at: AtLoad | null;
  figure: string;      // its title: "TTFT p95"
  then: number | null; // of the baseline
}

export interface Verdict {
  tone: "better" | "worse" | "same" | "none";
  lead: string;
  strong: string;
  rest: string;
}

/** The sentence at the head of the page. Null where there is nothing to compare, for which the view has words of its own. */
export function verdict(situation: Situation): Verdict | null {
  const { now, then, concurrency } = situation;
  const found = difference(now, then);
  if (!situation.running || !found || concurrency === null) return null;
  const reference = `the ${modeName(situation.baselineMode)} baseline`;
  const users = `at ${concurrency} ${concurrency === 1 ? "user" : "users"}`;
  const subject = `${capital(modeName(situation.mode))} routing: ${situation.figure} is`;
  const same = situation.mode === situation.baselineMode;
  const tone = found.verdict;
  if (tone === "same") return { tone, lead: subject, strong: "as in the baseline", rest: `of ${modeName(situation.baselineMode)} routing ${users}` };
  return { tone: same ? "same" : tone, lead: subject, strong: differenceText(found), rest: `${reference} ${users}` };
}

/** "27.2 ms now, 46.3 ms in the baseline (interpolated between 20 and 30 users)". */
export function verdictDetail(situation: Situation): string {
  const { at } = situation;
  const origin = at?.interpolated ? ` (interpolated between ${at.between[0]} and ${at.between[1]} users)` : "";
  return `${milliseconds(situation.now)} now, ${milliseconds(situation.then)} in the baseline${origin}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
