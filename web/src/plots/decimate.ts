// What a plot draws of a long series: for each column of pixels the least and the greatest value, in the order in which they came,
// so that no peak is lost and a day of samples costs no more to draw than some minutes.

export type Column = ArrayLike<number>;  // NaN: not known
export type Drawn = (number | null)[];

export interface Picture {
  x: number[];
  columns: Drawn[];
}

/** First index with times[index] >= time. */
export function lowerBound(times: Column, time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function known(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : value;
}

function exact(times: Column, columns: readonly Column[], first: number, last: number): Picture {
  const picture: Picture = { x: [], columns: columns.map(() => []) };
  for (let i = first; i < last; i++) {
    picture.x.push(times[i]!);
    columns.forEach((column, k) => picture.columns[k]!.push(known(column[i])));
  }
  return picture;
}

/** The extremes of column[first, last), in the order in which they came. */
function extremes(column: Column, first: number, last: number): [number | null, number | null] {
  let low = -1;
  let high = -1;
  for (let i = first; i < last; i++) {
    const value = column[i]!;
    if (Number.isNaN(value)) continue;
    if (low < 0 || value < column[low]!) low = i;
    if (high < 0 || value > column[high]!) high = i;
  }
  if (low < 0) return [null, null];
  return low < high ? [column[low]!, column[high]!] : [column[high]!, column[low]!];
}

/**
 * The part of a series from time `from` to `to` in at most `slots` pairs of points. Slots are aligned to multiples of their width, so that a moving
 * window does not make the picture flicker, and those that are over are kept: a day of samples is not read again each second.
 */
export class Decimator {
  #key = "";
  #slots: number[] = [];
  #columns: Drawn[] = [];

  /** `version` differs when what was there before has changed, not when something is added. */
  picture(times: Column, columns: readonly Column[], from: number, to: number, slots: number, version: number): Picture {
    const first = Math.max(0, lowerBound(times, from) - 1);
    const last = Math.min(times.length, lowerBound(times, to) + 1);
    if (last - first <= 2 * slots) return exact(times, columns, first, last);
    const width = (to - from) / slots;
    this.#forget(`${version} ${columns.length} ${width}`, Math.floor(times[first]! / width), columns.length);
    const next = this.#slots.length > 0 ? this.#slots[this.#slots.length - 1]! + 1 : Math.floor(times[first]! / width);
    let i = lowerBound(times, next * width);
    while (i < last) {
      const slot = Math.floor(times[i]! / width);
      const begin = i;
      const end = (slot + 1) * width;
      while (i < last && times[i]! < end) i++;
      if (i === begin) i++;  // rounding put the sample at the end of its slot
      this.#slots.push(slot);
      columns.forEach((column, k) => this.#columns[k]!.push(...extremes(column, begin, i)));
    }
    const result = { x: this.#slots.flatMap((slot) => [(slot + 0.25) * width, (slot + 0.75) * width]), columns: this.#columns.map((column) => [...column]) };
    this.#slots.pop();  // the newest is not over
    for (const column of this.#columns) column.length = 2 * this.#slots.length;
    return result;
  }

  #forget(key: string, firstSlot: number, columns: number): void {
    if (key !== this.#key || (this.#slots.length > 0 && this.#slots[0]! > firstSlot + 1)) {
      this.#key = key;
      this.#slots = [];
      this.#columns = Array.from({ length: columns }, () => []);
      return;
    }
    const gone = this.#slots.findIndex((slot) => slot >= firstSlot);
    if (gone <= 0) return;
    this.#slots.splice(0, gone);
    for (const column of this.#columns) column.splice(0, 2 * gone);
  }
}
