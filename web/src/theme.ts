// Light, dark, or as the system says. Plots draw on canvas, so they ask here for the colours of the style sheet.

export type Theme = "system" | "light" | "dark";

const KEY = "kvist-theme";
const listeners = new Set<() => void>();
const system = window.matchMedia("(prefers-color-scheme: dark)");
let colours = new Map<string, string>();

function stored(): Theme {
  try {
    const value = window.localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";  // storage is switched off
  }
}

let theme = stored();

function apply(): void {
  const dark = theme === "dark" || (theme === "system" && system.matches);
  document.documentElement.dataset["theme"] = dark ? "dark" : "light";
  colours = new Map();
  for (const listener of listeners) listener();
}

export function currentTheme(): Theme {
  return theme;
}

export function setTheme(next: Theme): void {
  theme = next;
  try {
    window.localStorage.setItem(KEY, next);
  } catch {
    // It lasts for this visit.
  }
  apply();
}

/** Returns what ends it. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The value of a custom property of the style sheet, such as "--live". */
export function colour(name: string): string {
  let value = colours.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    colours.set(name, value);
  }
  return value;
}

/** A colour per worker, by its place among them. */
export const WORKER_COLOURS = ["--w0", "--w1", "--w2", "--w3", "--w4", "--w5", "--w6", "--w7"] as const;

export function workerColour(index: number): string {
  return WORKER_COLOURS[index % WORKER_COLOURS.length]!;
}

system.addEventListener("change", apply);
apply();
