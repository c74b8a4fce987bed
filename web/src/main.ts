// The page's beginning: one store, one connection, one view on show, at most one picture per frame.
import { Connection } from "./connection.ts";
import type { Context, View } from "./context.ts";
import { h, replaceChildren, setAttribute, setText } from "./dom.ts";
import { liveHistory } from "./protocol/answers.ts";
import type { Hello, Message } from "./protocol/messages.ts";
import { Store } from "./store.ts";
import { onThemeChange } from "./theme.ts";
import { ConversationsView } from "./views/conversations.ts";
import { DecisionsView } from "./views/decisions.ts";
import { Header } from "./views/header.ts";
import { LiveView } from "./views/live.ts";
import { SweepsView } from "./views/sweeps.ts";
import { WorkersView } from "./views/workers.ts";

const TABS = [
  { name: "live", title: "Live", make: (context: Context): View => new LiveView(context) },
  { name: "workers", title: "Workers", make: (context: Context): View => new WorkersView(context) },
  { name: "conversations", title: "Conversations", make: (context: Context): View => new ConversationsView(context) },
  { name: "decisions", title: "Why this worker", make: (context: Context): View => new DecisionsView(context) },
  { name: "sweeps", title: "Sweeps", make: (context: Context): View => new SweepsView(context) },
] as const;

const TOLD_FOR_MS = 8000;
const READ_AGAIN_MS = 30_000;

class Page implements Context {
  readonly store = new Store();
  readonly connection: Connection;
  windowS = 300;
  readonly #header: Header;
  readonly #main = h("main", { id: "main", tabindex: "-1" });
  readonly #told = h("div", { class: "told", role: "alert", hidden: true });
  readonly #views = new Map<string, View>();
  #view = "";
  #rest = "";
  #frame = 0;
  #telling = 0;
  #historyRead = -Infinity;

  constructor() {
    this.connection = new Connection(socketUrl(), tokenFromAddress(), {
      onOpen: () => undefined,  // the first message says that it is the right server
      onMessage: (message) => this.#take(message),
      onLost: (retryAtMs, attempts, reason) => {
        this.store.connection = { state: "lost", retryAtMs, attempts, reason };
        this.refresh();
      },
    });
    this.#header = new Header(this, TABS);
    document.body.append(h("a", { class: "skip", href: "#main", onclick: (event) => this.#skip(event) }, "To the content"), this.#header.element, this.#main, this.#told);
    window.addEventListener("hashchange", () => this.#navigate());
    onThemeChange(() => this.refresh());
    this.#navigate();
    this.connection.open();
  }

  tell(text: string): void {
    window.clearTimeout(this.#telling);
    this.#told.hidden = false;
    setText(this.#told, text);
    this.#telling = window.setTimeout(() => {
      this.#told.hidden = true;
      setText(this.#told, "");
    }, TOLD_FOR_MS);
  }

  refresh(): void {
    if (this.#frame !== 0) return;
    this.#frame = window.requestAnimationFrame(() => {
      this.#frame = 0;
      this.#header.show(this.#view);
      this.#views.get(this.#view)?.show();
      setAttribute(this.#main, "data-sample", this.store.sample ? String(this.store.sample.t_ms) : undefined);  // which one is on show, for tests
    });
  }

  #take(message: Message): void {
    if (message.type === "hello") this.#greet(message.hello);
    this.store.apply(message);
    if (this.store.skipped > 0 && performance.now() - this.#historyRead > READ_AGAIN_MS) this.#readHistory();
    this.refresh();
  }

  #greet(hello: Hello): void {
    this.store.connection = { state: "open" };
    if (this.store.hello === null && location.hash.startsWith("#/") === false && hello.source === "stored") location.hash = "#/sweeps";
    this.#readHistory(hello);
  }

  #readHistory(hello = this.store.hello): void {
    if (!hello) return;
    this.#historyRead = performance.now();
    const tiers = hello.history.map((tier) => this.connection.ask("history", { of: "live", window_s: tier.length_s, points: Math.min(4800, Math.ceil(tier.length_s / tier.step_s)) }, liveHistory));
    Promise.all(tiers).then((answers) => {
      this.store.takeHistory(answers);
      this.refresh();
    }, () => undefined);  // the connection was lost; the next hello asks again
  }

  #skip(event: Event): void {
    event.preventDefault();  // the fragment names the view
    this.#main.focus();
  }

  #navigate(): void {
    const [, name = "", ...rest] = location.hash.split("/");
    const tab = TABS.find((candidate) => candidate.name === name) ?? TABS[0];
    if (tab.name !== this.#view) {
      this.#views.get(this.#view)?.leave?.();
      this.#view = tab.name;
      let view = this.#views.get(tab.name);
      if (!view) {
        view = tab.make(this);
        this.#views.set(tab.name, view);
      }
      replaceChildren(this.#main, view.element);
    }
    this.#rest = decoded(rest.join("/"));
    this.#views.get(this.#view)?.enter?.(this.#rest);
    this.refresh();
  }
}

/** What somebody typed or cut off may be no encoding of anything: then it is what it is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function socketUrl(): string {
  const url = new URL("ws", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  return url.href;
}

/** "#token=..." is in the printed address of a server that wants one; it is kept for this tab and leaves the address bar. */
function tokenFromAddress(): string | null {
  const match = /^#token=(.+)$/.exec(location.hash);
  try {
    if (match) {
      sessionStorage.setItem("kvist-token", match[1]!);
      history.replaceState(null, "", location.pathname);
    }
    return sessionStorage.getItem("kvist-token");
  } catch {
    return match?.[1] ?? null;  // storage is switched off
  }
}

function begin(): void {
  document.getElementById("boot")?.remove();
  new Page();
}

// The head that index.html has is painted first; what is built here comes with the next frame.
if (document.hidden) begin();
else window.requestAnimationFrame(() => window.setTimeout(begin));
