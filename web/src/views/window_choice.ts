// How long a time the plots show; the same for all views.
import type { Context } from "../context.ts";
import { h, setAttribute } from "../dom.ts";

const WINDOWS: readonly [number, string][] = [[300, "5 min"], [1800, "30 min"], [14_400, "4 h"], [86_400, "24 h"]];

export class WindowChoice {
  readonly #buttons: [number, HTMLButtonElement][];
  readonly element: HTMLElement;

  constructor(private readonly context: Context) {
    this.#buttons = WINDOWS.map(([seconds, text]) => [seconds, h("button", { type: "button", onclick: () => this.#choose(seconds) }, text)]);
    this.element = h("div", { class: "segments small", role: "group", "aria-label": "Time shown" }, ...this.#buttons.map(([, button]) => button));
  }

  show(): void {
    for (const [seconds, button] of this.#buttons) setAttribute(button, "aria-pressed", String(seconds === this.context.windowS));
  }

  #choose(seconds: number): void {
    this.context.windowS = seconds;
    this.context.refresh();
  }
}
