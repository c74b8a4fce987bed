// A run's levels, and the comparison of two runs, as tables.
import { h } from "../dom.ts";
import { count, isKnown, percent, UNKNOWN } from "../format.ts";
import type { Comparison, Run, RunFigure } from "../protocol/answers.ts";
import { figureText } from "./run.ts";

const COLUMNS = ["ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "itl_p95_ms", "output_tokens_per_s", "tops", "kv_hit_rate_pct", "error_pct"];

function head(titles: readonly [string, string][]): HTMLElement {
  return h("thead", {}, h("tr", {}, ...titles.map(([title, kind]) => h("th", { scope: "col", class: kind }, title))));
}

function scrolling(label: string, table: HTMLElement): HTMLElement {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}

/** Each level with its figures; a button per repetition opens it over time. */
export function levelTable(run: Run, open: (level: number, title: string) => void): HTMLElement {
  const figures = run.figures.filter((figure) => COLUMNS.includes(figure.figure));
  const rows = run.modes.flatMap((mode) => mode.levels.map((level) => {
    const cells = figures.map((figure) => {
      const found = level.figures.get(figure.figure);
      const interval = isKnown(found?.low) && isKnown(found?.high) ? `${figureText(figure)(found.low)} to ${figureText(figure)(found.high)}` : undefined;
      return h("td", { class: "num", title: interval && `95 % interval: ${interval}` }, isKnown(found?.value) ? figureText(figure)(found.value) : UNKNOWN);
    });
    const buttons = level.level_ids.map((id, i) => h("button", { type: "button", class: "link", onclick: () => open(id, `${mode.title} at ${level.concurrency}${level.level_ids.length > 1 ? `, repetition ${i + 1}` : ""}`), "aria-label": `${mode.title} at ${level.concurrency} over time` },
      level.level_ids.length > 1 ? String(i + 1) : "over time"));
    const remarks = [level.excluded ? "excluded: too many errors" : "", level.verdict === "invalid" ? "the client was the bottleneck" : level.verdict === "degraded" ? "the client was late" : "", ...level.remarks].filter(Boolean).join("; ");
    return h("tr", { "data-excluded": level.excluded ? "yes" : undefined }, h("th", { scope: "row" }, mode.title), h("td", { class: "num" }, count(level.concurrency)), ...cells, h("td", {}, ...buttons), h("td", { class: "remark" }, remarks));
  }));
  const table = h("table", { class: "list" }, head([["Mode", ""], ["Users", "num"], ...figures.map((figure): [string, string] => [figure.title, "num"]), ["Over time", ""], ["Remarks", ""]]), h("tbody", {}, ...rows));
  return scrolling("Levels of the run", table);
}

export function comparisonTable(comparison: Comparison, figures: readonly RunFigure[], other: string): HTMLElement {
  const shown = figures.filter((figure) => comparison.levels.some((level) => level.figures.has(figure.figure)) && COLUMNS.includes(figure.figure));
  const rows = comparison.levels.map((level) => h("tr", {}, h("th", { scope: "row" }, level.mode.replaceAll("_", " ")), h("td", { class: "num" }, count(level.concurrency)),
    ...shown.map((figure) => {
      const found = level.figures.get(figure.figure);
      const text = isKnown(found?.ratio) ? `${found.ratio >= 1 ? "+" : "−"}${percent(Math.abs(found.ratio - 1), 1)}` : UNKNOWN;
      const values = isKnown(found?.baseline) && isKnown(found?.candidate) ? `${figureText(figure)(found.baseline)} → ${figureText(figure)(found.candidate)}` : undefined;
      return h("td", { class: "num", "data-verdict": found?.verdict ?? undefined, title: [values, found?.verdict === "open" ? "not enough repetitions to say" : found?.verdict].filter(Boolean).join(": ") }, text);
    })));
  const table = h("table", { class: "list" }, h("caption", {}, `Against ${other} (dashed above)`), head([["Mode", ""], ["Users", "num"], ...shown.map((figure): [string, string] => [figure.title, "num"])]), h("tbody", {}, ...rows));
  return scrolling("Comparison of the two runs", table);
}
