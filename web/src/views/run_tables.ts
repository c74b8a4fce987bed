// A run's levels, and the comparison of two runs, as tables.
import { changeText, changeTitle, figureText, tableFigures } from "../compared.ts";
import { h } from "../dom.ts";
import { count, isKnown, modeName, UNKNOWN } from "../format.ts";
import type { Comparison, Run, RunFigure } from "../protocol/answers.ts";

function head(titles: readonly [string, string][]): HTMLElement {
  return h("thead", {}, h("tr", {}, ...titles.map(([title, kind]) => h("th", { scope: "col", class: kind }, title))));
}

function scrolling(label: string, table: HTMLElement): HTMLElement {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}

/** Each level with its figures; a button per repetition opens it over time. */
export function levelTable(run: Run, open: (level: number, title: string) => void): HTMLElement {
  const figures = tableFigures(run.figures);
  const rows = run.modes.flatMap((mode) => mode.levels.map((level) => {
    const cells = figures.map((figure) => {
      const found = level.figures.get(figure.figure);
      const interval = isKnown(found?.low) && isKnown(found?.high) ? `${figureText(figure)(found.low)} to ${figureText(figure)(found.high)}` : undefined;
      return h("td", { class: "num", title: interval && `95 % interval: ${interval}` }, isKnown(found?.value) ? figureText(figure)(found.value) : UNKNOWN);
    });
    const buttons = level.level_ids.map((id, i) => {
      const repetition = String((level.level_repetitions?.[i] ?? i) + 1);
      const title = `${mode.title} at ${level.concurrency}${level.level_ids.length > 1 ? `, repetition ${repetition}` : ""}`;
      return h("button", { type: "button", class: "link", onclick: () => open(id, title), "aria-label": `${title}, over time` }, level.level_ids.length > 1 ? repetition : "over time");
    });
    const remarks = [level.excluded ? "excluded: too many errors" : "", level.verdict === "invalid" ? "the client was the bottleneck" : level.verdict === "degraded" ? "the client was late" : "", ...level.remarks].filter(Boolean).join("; ");
    return h("tr", { "data-excluded": level.excluded ? "yes" : undefined }, h("th", { scope: "row" }, mode.title), h("td", { class: "num" }, count(level.concurrency)), ...cells, h("td", {}, ...buttons), h("td", { class: "remark" }, remarks));
  }));
  const table = h("table", { class: "list" }, head([["Mode", ""], ["Users", "num"], ...figures.map((figure): [string, string] => [figure.title, "num"]), ["Over time", ""], ["Remarks", ""]]), h("tbody", {}, ...rows));
  return scrolling("Levels of the run", table);
}

export function comparisonTable(comparison: Comparison, figures: readonly RunFigure[], other: string): HTMLElement {
  const shown = tableFigures(figures).filter((figure) => comparison.levels.some((level) => level.figures.has(figure.figure)));
  const rows = comparison.levels.map((level) => h("tr", {}, h("th", { scope: "row" }, modeName(level.mode)), h("td", { class: "num" }, count(level.concurrency)),
    ...shown.map((figure) => {
      const found = level.figures.get(figure.figure);
      return h("td", { class: "num", "data-verdict": found?.verdict ?? undefined, title: changeTitle(figure, found) }, changeText(figure, found));
    })));
  const table = h("table", { class: "list" }, h("caption", {}, `Against ${other} (dashed above)`), head([["Mode", ""], ["Users", "num"], ...shown.map((figure): [string, string] => [figure.title, "num"])]), h("tbody", {}, ...rows));
  return scrolling("Comparison of the two runs", table);
}
