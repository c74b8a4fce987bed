// Values of a message, checked as they are read: a key that is missing or of another type is an error that names its place.

export class Malformed extends Error {}

type Json = unknown;
export type Reader<T> = (value: Json, place: string) => T;

function wrong(place: string, expected: string): never {
  throw new Malformed(`${place} is not ${expected}`);
}

export const text: Reader<string> = (value, place) => (typeof value === "string" ? value : wrong(place, "a text"));
export const flag: Reader<boolean> = (value, place) => (typeof value === "boolean" ? value : wrong(place, "true or false"));
export const number: Reader<number> = (value, place) => (typeof value === "number" && Number.isFinite(value) ? value : wrong(place, "a number"));

/** null, and a key that is not there (of a server that knew nothing to say). */
export function optional<T>(reader: Reader<T>): Reader<T | null> {
  return (value, place) => (value === null || value === undefined ? null : reader(value, place));
}

/** One of the words, or the last of them for a word that this page does not know. */
export function word<T extends string>(...words: readonly T[]): Reader<T> {
  return (value, place) => {
    const given = text(value, place);
    return words.find((known) => known === given) ?? words[words.length - 1]!;
  };
}

export function list<T>(reader: Reader<T>): Reader<T[]> {
  return (value, place) => {
    if (!Array.isArray(value)) return wrong(place, "a list");
    return value.map((element, i) => reader(element, `${place}[${i}]`));
  };
}

function mapping(value: Json, place: string): Record<string, Json> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return wrong(place, "an object");
  return value as Record<string, Json>;
}

export function mapOf<T>(reader: Reader<T>): Reader<Map<string, T>> {
  return (value, place) => new Map(Object.entries(mapping(value, place)).map(([key, element]) => [key, reader(element, `${place}.${key}`)]));
}

type Shape = Record<string, Reader<unknown>>;
export type Shaped<S extends Shape> = { [K in keyof S]: S[K] extends Reader<infer T> ? T : never };

export function object<S extends Shape>(shape: S): Reader<Shaped<S>> {
  const entries = Object.entries(shape);
  return (value, place) => {
    const given = mapping(value, place);
    const result: Record<string, unknown> = {};
    for (const [key, reader] of entries) result[key] = reader(given[key], place === "" ? key : `${place}.${key}`);
    return result as Shaped<S>;
  };
}

/** Figures by name; what is null or no number is left out. */
export const figures: Reader<Figures> = (value, place) => {
  const result: Figures = {};
  for (const [key, element] of Object.entries(mapping(value, place))) {
    if (typeof element === "number" && Number.isFinite(element)) result[key] = element;
  }
  return result;
};
export type Figures = { [figure: string]: number | undefined };
