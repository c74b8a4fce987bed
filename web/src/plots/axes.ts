// Axes in the page's own hand: hours of the day without dates, few and quiet grid lines.
import type uPlot from "uplot";
import { colour } from "../theme.ts";

export const FONT = '11px Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

const SECOND_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 43_200, 86_400];

export function timeOfDay(seconds: number, withSeconds: boolean): string {
  const date = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  const text = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return withSeconds ? `${text}:${two(date.getSeconds())}` : text;
}

/** Where hours begin depends on the viewer's time zone, so ticks are multiples of their step in local time. */
function timeSplits(_: uPlot, __: number, from: number, to: number, step: number): number[] {
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const splits: number[] = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) splits.push(at);
  return splits;
}

function strokes(): Pick<uPlot.Axis, "stroke" | "font" | "ticks"> {
  return { stroke: () => colour("--soft"), font: FONT, ticks: { show: false } };
}

export function timeAxis(): uPlot.Axis {
  return {
    ...strokes(),
    scale: "x",
    size: 24,
    gap: 4,
    space: 72,
    incrs: SECOND_STEPS,
    splits: timeSplits,
    values: (_, splits, __, ___, step) => splits.map((at) => timeOfDay(at, step < 60)),
    grid: { show: false },
    border: { show: true, stroke: () => colour("--rule"), width: 1 },
  };
}

/** Seconds since a beginning. */
export function secondsAxis(): uPlot.Axis {
  return { ...timeAxis(), splits: (_, __, from, to, step) => Array.from({ length: Math.floor(to / step) - Math.ceil(from / step) + 1 }, (___, i) => (Math.ceil(from / step) + i) * step), values: (_, splits) => splits.map((at) => `${at} s`) };
}

export function numberAxis(scale: string, text: (value: number) => string, size = 52): uPlot.Axis {
  return {
    ...strokes(),
    scale,
    size,
    gap: 6,
    space: 34,
    values: (_, splits) => splits.map(text),
    grid: { stroke: () => colour("--grid"), width: 1 },
  };
}
