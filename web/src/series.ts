// Samples over time in columns: bounded, contiguous, so that a plot can take a part without copying. NaN is what is not known.

export type Row = { readonly [column: string]: number | null | undefined };
type Derivation = (row: (column: string) => number) => number;

let versions = 0;

export class Series {
  #times: Float64Array;
  #columns = new Map<string, Float32Array>();
  #derived = new Map<string, Derivation>();
  #length = 0;
  #version = ++versions;

  /** Keeps at least the newest `capacity` samples, and at most a quarter more. */
  constructor(readonly capacity: number) {
    this.#times = new Float64Array(Math.min(1024, this.#room()));
  }

  /** Differs between series, and when what was there has changed. */
  get version(): number {
    return this.#version;
  }

  get length(): number {
    return this.#length;
  }

  get times(): Float64Array {
    return this.#times.subarray(0, this.#length);
  }

  get bytes(): number {
    let bytes = this.#times.byteLength;
    for (const column of this.#columns.values()) bytes += column.byteLength;
    return bytes;
  }

  get names(): string[] {
    return [...this.#columns.keys()];
  }

  column(name: string): Float32Array {
    return this.#own(name).subarray(0, this.#length);
  }

  lastTime(): number {
    return this.#length > 0 ? this.#times[this.#length - 1]! : -Infinity;
  }

  last(name: string): number | null {
    const value = this.#length > 0 ? this.#own(name)[this.#length - 1]! : NaN;
    return Number.isNaN(value) ? null : value;
  }

  /** A sample later than all before; an earlier one is not taken. After a hole of more than `gap` the lines of plots break. */
  append(time: number, row: Row, gap = Infinity): void {
    if (time <= this.lastTime()) return;
    if (this.#length > 0 && time - this.lastTime() > gap) this.#push((this.lastTime() + time) / 2, {});
    this.#push(time, row);
  }

  clear(): void {
    this.#version = ++versions;
    this.#length = 0;
    this.#columns.clear();
  }

  /** A column computed from the others, now and with each further sample. */
  derive(name: string, derivation: Derivation): void {
    this.#version = ++versions;
    this.#derived.set(name, derivation);
    const column = this.#own(name);
    for (let i = 0; i < this.#length; i++) column[i] = derivation((other) => this.#own(other)[i]!);
  }

  /** The rows later than `time`, oldest first. */
  rowsAfter(time: number): { time: number; row: Row }[] {
    const rows: { time: number; row: Row }[] = [];
    for (let i = this.#length - 1; i >= 0 && this.#times[i]! > time; i--) {
      const row: Record<string, number> = {};
      for (const [name, column] of this.#columns) row[name] = column[i]!;
      rows.push({ time: this.#times[i]!, row });
    }
    return rows.reverse();
  }

  #room(): number {
    return Math.ceil(this.capacity * 1.25);
  }

  #own(name: string): Float32Array {
    let column = this.#columns.get(name);
    if (!column) {
      column = new Float32Array(this.#times.length).fill(NaN);
      this.#columns.set(name, column);
    }
    return column;
  }

  #push(time: number, row: Row): void {
    if (this.#length === this.#times.length) this.#makeRoom();
    const i = this.#length++;
    this.#times[i] = time;
    for (const column of this.#columns.values()) column[i] = NaN;
    for (const [name, value] of Object.entries(row)) this.#own(name)[i] = value ?? NaN;
    for (const [name, derivation] of this.#derived) this.#own(name)[i] = derivation((other) => this.#own(other)[i]!);
  }

  /** Names come and go, such as those of workers: who has not been known for as long as is kept has no column. */
  #dropUnknown(): void {
    for (const [name, column] of this.#columns) {
      if (!this.#derived.has(name) && column.subarray(0, this.#length).every(Number.isNaN)) this.#columns.delete(name);
    }
  }

  #makeRoom(): void {
    if (this.#times.length < this.#room()) {
      this.#dropUnknown();
      const size = Math.min(this.#room(), this.#times.length * 2);
      const times = new Float64Array(size);
      times.set(this.#times);
      this.#times = times;
      for (const [name, column] of this.#columns) {
        const larger = new Float32Array(size).fill(NaN);
        larger.set(column);
        this.#columns.set(name, larger);
      }
      return;
    }
    const first = this.#length - this.capacity;
    this.#times.copyWithin(0, first, this.#length);
    for (const column of this.#columns.values()) column.copyWithin(0, first, this.#length);
    this.#length = this.capacity;
    this.#dropUnknown();
  }
}
