// The page's head: what is seen, how it is connected, the views, and light or dark.
import type { Context } from "../context.ts";
import { h, replaceChildren, setAttribute, setText, svg } from "../dom.ts";
import { modeName } from "../format.ts";
import { gatewayText } from "../store.ts";
import { currentTheme, setTheme, type Theme } from "../theme.ts";

export interface Tab {
  name: string;
  title: string;
}

const THEMES: Record<Theme, { next: Theme; text: string }> = {
  system: { next: "light", text: "Theme: system" }, light: { next: "dark", text: "Theme: light" }, dark: { next: "system", text: "Theme: dark" },
};

/** A twig with two leaves. */
function mark(): SVGElement {
  return svg("svg", { class: "mark", viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("path", { class: "mark-stem", d: "M5 21C8 14 11 9 19 4" }),
    svg("path", { class: "mark-leaf", d: "M9.5 14C5 14 3.5 11 3.5 8C7.5 8 10 10 9.5 14Z" }),
    svg("path", { class: "mark-leaf", d: "M12.5 10.5C13.5 14.5 16.5 15.5 20 14.5C19.5 11 16.5 9.5 12.5 10.5Z" }));
}

export class Header {
  readonly element: HTMLElement;
  readonly #title = h("span", { class: "what" });
  readonly #chips = h("span", { class: "chips" });
  readonly #state = h("span", { role: "status" });
  /** Beside the state: a screen reader is told of that when it changes, and not each second. */
  readonly #countdown = h("span", { "aria-live": "off" });
  readonly #connection = h("span", { class: "connection" }, h("span", {}, this.#state, this.#countdown));
  readonly #gateway = h("p", { class: "gateway-lost", role: "status", hidden: true });
  readonly #retry = h("button", { type: "button", class: "link", onclick: () => this.context.connection.retry() }, "Connect now");
  readonly #theme = h("button", { type: "button", class: "theme", onclick: () => this.#nextTheme() });
  readonly #links: Map<string, HTMLAnchorElement>;
  #chipsShown = "";

  constructor(private readonly context: Context, tabs: readonly Tab[]) {
    this.#links = new Map(tabs.map((tab) => [tab.name, h("a", { href: `#/${tab.name}` }, tab.title)]));
    this.element = h("header", { class: "page-head" },
      h("div", { class: "head-line" }, h("h1", {}, mark(), h("span", { class: "wordmark" }, "kvist")), this.#title, this.#chips, h("span", { class: "spring" }), this.#connection, this.#retry, this.#theme),
      this.#gateway, h("nav", { "aria-label": "Views" }, ...this.#links.values()));
    this.#showTheme();
    window.setInterval(() => this.#showConnection(), 500);  // the time until the next attempt
  }

  show(view: string): void {
    const { store } = this.context;
    for (const [name, link] of this.#links) {
      setAttribute(link, "aria-current", name === view ? "page" : undefined);
      link.hidden = name !== view && store.hello !== null && !offers(store.hello.has, name);
    }
    setText(this.#title, store.hello?.title ?? "");
    const chips = [store.hello?.model, store.sample?.mode ? `${modeName(store.sample.mode)} routing` : null, scaleText(store.hello?.time_scale ?? null)].filter((chip): chip is string => !!chip);
    if (chips.join() !== this.#chipsShown) {
      this.#chipsShown = chips.join();
      replaceChildren(this.#chips, ...chips.map((chip) => h("span", { class: "chip" }, chip)));
    }
    const lost = gatewayText(store.sample?.gateway ?? null);
    this.#gateway.hidden = lost === "";
    setText(this.#gateway, lost);
    document.title = store.hello ? `${store.hello.title} · kvist` : "kvist";
    this.#showConnection();
  }

  #showConnection(): void {
    const { connection } = this.context.store;
    const lost = connection.state === "lost";
    const seconds = lost ? Math.max(0, Math.ceil((connection.retryAtMs - Date.now()) / 1000)) : 0;
    const words = { connecting: "connecting", open: this.context.store.hello?.source === "stored" ? "connected" : "live", lost: lost ? connection.reason : "", refused: "refused" };
    setText(this.#state, words[connection.state]);
    setText(this.#countdown, lost ? `; next attempt in ${seconds} s` : "");
    setAttribute(this.#connection, "data-state", connection.state);
    this.#retry.hidden = !lost;
    setAttribute(document.body, "data-connection", connection.state);
  }

  #nextTheme(): void {
    setTheme(THEMES[currentTheme()].next);
    this.#showTheme();
  }

  #showTheme(): void {
    setText(this.#theme, THEMES[currentTheme()].text);
  }
}

/** A view that this process has nothing for is not offered. */
function offers(has: ReadonlyMap<string, boolean>, view: string): boolean {
  return view === "sweeps" ? has.get("sweep") !== false || has.get("runs") !== false : has.get(view) !== false;
}

function scaleText(scale: number | null): string | null {
  return scale === null || scale === 1 ? null : `time × ${scale}`;
}
