// Numbers as the page writes them. What is not known is "–"; a view says why beside it.

export const UNKNOWN = "–";

export type Known = number | null | undefined;

export function isKnown(value: Known): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

const grouped = new Intl.NumberFormat("en-GB");

function digits(value: number): number {
  const size = Math.abs(value);
  return size >= 100 ? 0 : size >= 10 ? 1 : 2;
}

export function count(value: Known): string {
  return isKnown(value) ? grouped.format(Math.round(value)) : UNKNOWN;
}

/** Three significant digits: 1,234, 123, 12.3, 1.23. */
export function decimal(value: Known): string {
  if (!isKnown(value)) return UNKNOWN;
  return Math.abs(value) >= 1000 ? grouped.format(Math.round(value)) : value.toFixed(digits(value));
}

/** A duration given in milliseconds: "27.2 ms", "1.24 s", "2 min 5 s". */
export function milliseconds(value: Known): string {
  if (!isKnown(value)) return UNKNOWN;
  if (Math.abs(value) < 1000) return `${value.toFixed(digits(value))} ms`;
  return Math.abs(value) < 60_000 ? `${(value / 1000).toFixed(digits(value / 1000))} s` : duration(value / 1000);
}

/** For axes: as few digits as the value has. "0", "2.5 ms", "100 ms", "1.5 s". */
export function axisMilliseconds(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) < 1000 ? `${axisNumber(value)} ms` : `${axisNumber(value / 1000)} s`;
}

export function axisNumber(value: number): string {
  return grouped.format(Number(value.toPrecision(4)));
}

/** From one duration to another, the unit once if both have the same. */
export function fromTo(first: Known, last: Known): string {
  const [from, to] = [milliseconds(first), milliseconds(last)];
  const unit = / (ms|s)$/.exec(to)?.[0] ?? "";
  return `${unit !== "" && from.endsWith(unit) ? from.slice(0, -unit.length) : from} → ${to}`;
}

/** A duration given in seconds, coarse: "42 s", "3 min 20 s", "2 h 5 min". */
export function duration(value: Known): string {
  if (!isKnown(value)) return UNKNOWN;
  const seconds = Math.max(0, Math.round(value));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

/** A share of 0 to 1 as per cent. */
export function percent(value: Known, places = 1): string {
  return isKnown(value) ? `${(100 * value).toFixed(places)} %` : UNKNOWN;
}

/** Tokens, short: "412", "36.2k", "1.2M". */
export function compact(value: Known): string {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(1)}G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)}M`;
  return size >= 10_000 ? `${(value / 1000).toFixed(1)}k` : count(value);
}

/** "1 turn", "3 turns", "– turns". */
export function plural(value: Known, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Time of day on the viewer's clock. */
export function clock(unixSeconds: Known): string {
  if (!isKnown(unixSeconds)) return UNKNOWN;
  return new Date(unixSeconds * 1000).toLocaleTimeString("en-GB", { hour12: false });
}

export function dateAndTime(unixSeconds: Known): string {
  if (!isKnown(unixSeconds)) return UNKNOWN;
  const date = new Date(unixSeconds * 1000);
  return `${date.toLocaleDateString("en-CA")} ${date.toLocaleTimeString("en-GB", { hour12: false })}`;
}

const longModeNames: Record<string, string> = {
  round_robin: "round-robin", kv: "KV-aware", random: "random", least_loaded: "least loaded", power_of_two: "power of two",
};

/** A routing mode in a sentence. */
export function modeName(mode: string | null | undefined): string {
  if (!mode) return UNKNOWN;
  return longModeNames[mode] ?? mode.replaceAll("_", " ");
}
