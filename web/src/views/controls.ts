// What can be changed of the running system: users, rate, routing mode, start and stop.
import { change, type Context } from "../context.ts";
import { h, replaceChildren, setAttribute, setText } from "../dom.ts";
import { modeName } from "../format.ts";
import type { Controls, Load } from "../protocol/messages.ts";

/** So long after a key or a drag nothing the server says moves a control under the hand. */
const HANDS_OFF_MS = 1500;
const SEND_AFTER_MS = 200;

/** Modes with a button of their own, in this order; the others are in a list. */
const FIRST_MODES = ["round_robin", "kv"];

/** A slider must have a hand's reach: the whole range the server allows would make one user a tenth of a pixel. */
export function sliderMost(allowed: number, current: number, levels: readonly number[]): number {
  const wanted = Math.max(48, current * 1.5, ...levels.map((level) => level * 1.25));
  const step = wanted > 200 ? 100 : wanted > 96 ? 20 : 8;
  return Math.min(allowed, Math.ceil(wanted / step) * step);
}

/** A number with an input, and with a slider if it has a reach. Sends where the slider comes to rest, and what was typed once it is complete. */
class NumberControl {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  readonly slider: HTMLInputElement | undefined;
  #touched = -Infinity;
  #timer = 0;
  /** What is typed and not yet sent: the first digit of a number is another number. */
  #draft = false;

  constructor(id: string, label: string, note: string, withSlider: boolean, private readonly send: (value: number) => void) {
    this.input = h("input", { type: "number", id, inputmode: "numeric", onfocus: () => (this.#draft = false), oninput: () => this.#type(), onchange: () => this.#enter(),
      onkeydown: (event) => (event as KeyboardEvent).key === "Enter" && this.#enter() });
    if (withSlider) this.slider = h("input", { type: "range", "aria-label": `${label}, slider`, id: `${id}-slider`, oninput: () => this.#slide(this.slider!) });
    this.element = h("div", { class: "control" }, h("label", { for: id }, label), h("div", { class: "control-row" }, this.slider, this.input), note && h("small", {}, note));
  }

  range(least: number, most: number, reach: number): void {
    setAttribute(this.input, "min", String(least));
    setAttribute(this.input, "max", String(most));
    if (!this.slider || this.#held()) return;
    setAttribute(this.slider, "min", String(least));
    setAttribute(this.slider, "max", String(reach));
  }

  show(value: number | null, enabled: boolean): void {
    this.input.disabled = !enabled;
    if (this.slider) this.slider.disabled = !enabled;
    if (value === null || this.#held()) return;
    if (this.input.value !== String(value)) this.input.value = String(value);
    if (this.slider && this.slider.value !== String(value)) this.slider.value = String(value);
  }

  #held(): boolean {
    return performance.now() - this.#touched < HANDS_OFF_MS || (this.#draft && document.activeElement === this.input);
  }

  #slide(slider: HTMLInputElement): void {
    this.#touched = performance.now();
    this.#draft = false;
    this.input.value = slider.value;
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.send(Number(slider.value)), SEND_AFTER_MS);
  }

  #type(): void {
    this.#touched = performance.now();
    this.#draft = true;
    window.clearTimeout(this.#timer);
  }

  /** By the Enter key, by leaving the field, by its arrows. */
  #enter(): void {
    if (!this.#draft || !this.input.reportValidity()) return;
    this.#draft = false;
    if (this.input.value === "") {
      this.#touched = -Infinity;  // nothing was chosen: the server's value comes back
      return;
    }
    this.#touched = performance.now();
    if (this.slider) this.slider.value = this.input.value;
    this.send(Number(this.input.value));
  }
}

export class ControlsView {
  readonly element: HTMLElement;
  readonly #state = h("span", { class: "load-state" });
  readonly #startStop = h("button", { type: "button", class: "primary", id: "start-stop", onclick: () => void this.#toggle() });
  readonly #users: NumberControl;
  readonly #rate: NumberControl;
  readonly #modes = h("div", { class: "segments", role: "group", "aria-labelledby": "mode-label" });
  readonly #modeBox = h("div", { class: "control" }, h("span", { class: "label", id: "mode-label" }, "Routing"), this.#modes);
  #modesShown = "";
  #otherModes: HTMLSelectElement | undefined;
  #buttons = new Map<string, HTMLButtonElement>();

  constructor(private readonly context: Context) {
    this.#users = new NumberControl("concurrency", "Users at once", "", true, (value) => void change(context, "set_concurrency", { concurrency: value }));
    this.#rate = new NumberControl("rate", "Starts per second", "0: no limit", false, (value) => void change(context, "set_rate", { rate_per_s: value }));
    setAttribute(this.#rate.input, "step", "any");
    this.element = h("section", { class: "card controls", "aria-label": "Controls" },
      h("div", { class: "control start" }, h("span", { class: "label" }, "Load ", this.#state), this.#startStop), this.#users.element, this.#rate.element, this.#modeBox);
  }

  show(): void {
    const { store } = this.context;
    const controls = store.hello?.controls ?? null;
    this.element.hidden = controls === null;
    if (controls === null) return;
    const load = store.sample?.load ?? null;
    const connected = store.connection.state === "open";
    this.#showStart(controls, load, connected);
    this.#showUsers(controls, load, connected);
    this.#showRate(controls, load, connected);
    this.#showModes(controls, connected);
  }

  #showStart(controls: Controls, load: Load | null, connected: boolean): void {
    (this.#startStop.parentElement as HTMLElement).hidden = !controls.start && !controls.stop;
    const state = load?.state ?? "idle";
    setText(this.#startStop, state === "idle" ? "Start" : state === "draining" ? "Stopping" : "Stop");
    setAttribute(this.#startStop, "data-state", state);
    this.#startStop.disabled = !connected || state === "draining" || (state === "idle" ? !controls.start : !controls.stop);
    setText(this.#state, { idle: "idle", running: "running", draining: "ends its last answers" }[state]);
  }

  #showUsers(controls: Controls, load: Load | null, connected: boolean): void {
    const range = controls.concurrency;
    this.#users.element.hidden = range === null;
    if (range === null) return;
    const value = load?.concurrency ?? load?.next?.concurrency ?? null;
    const levels = this.context.store.baseline?.modes.flatMap((entry) => entry.levels.map((level) => level.concurrency)) ?? [];
    this.#users.range(range.min, range.max, sliderMost(range.max, value ?? 0, levels));
    this.#users.show(value, connected && (range.live || load?.state === "idle"));
  }

  #showRate(controls: Controls, load: Load | null, connected: boolean): void {
    const range = controls.rate_per_s;
    this.#rate.element.hidden = range === null;
    if (range === null) return;
    this.#rate.range(range.min, range.max, range.max);
    const value = load?.state === "idle" ? load.next?.rate_per_s ?? null : load?.rate_per_s ?? 0;
    this.#rate.show(value, connected && (range.live || load?.state === "idle"));
  }

  #showModes(controls: Controls, connected: boolean): void {
    const modes = controls.modes;
    this.#modeBox.hidden = modes === null;
    if (modes === null) return;
    if (modes.join() !== this.#modesShown) this.#offer(modes);
    const mode = this.context.store.sample?.mode ?? "";
    for (const [name, button] of this.#buttons) {
      setAttribute(button, "aria-pressed", String(name === mode));
      button.disabled = !connected;
    }
    if (!this.#otherModes) return;
    this.#otherModes.disabled = !connected;
    const other = this.#buttons.has(mode) ? "" : mode;
    if (document.activeElement !== this.#otherModes && this.#otherModes.value !== other) this.#otherModes.value = other;
    setAttribute(this.#otherModes, "data-chosen", other === "" ? undefined : "yes");
  }

  #offer(modes: readonly string[]): void {
    this.#modesShown = modes.join();
    const first = FIRST_MODES.filter((mode) => modes.includes(mode));
    const others = modes.filter((mode) => !first.includes(mode));
    this.#buttons = new Map(first.map((mode) => [mode, h("button", { type: "button", "aria-pressed": "false", onclick: () => this.#setMode(mode) }, modeName(mode))]));
    this.#otherModes = others.length === 0 ? undefined : h("select", { "aria-label": "Other routing modes", onchange: () => this.#otherModes!.value !== "" && this.#setMode(this.#otherModes!.value) },
      h("option", { value: "" }, "other …"), ...others.map((mode) => h("option", { value: mode }, modeName(mode))));
    replaceChildren(this.#modes, ...this.#buttons.values(), this.#otherModes);
  }

  #setMode(mode: string): void {
    void change(this.context, "set_mode", { mode });
  }

  async #toggle(): Promise<void> {
    const running = this.context.store.running();
    this.#startStop.disabled = true;
    const keys: Record<string, number> = {};
    if (!running && this.#users.input.value !== "" && !this.#users.element.hidden) keys["concurrency"] = Number(this.#users.input.value);
    if (!running && this.#rate.input.value !== "" && !this.#rate.element.hidden) keys["rate_per_s"] = Number(this.#rate.input.value);
    await change(this.context, running ? "stop" : "start", keys);
    this.context.refresh();
  }
}
