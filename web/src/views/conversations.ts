// Conversations: the newest ones, and one of them turn by turn.
import type { Context, View } from "../context.ts";
import { h, KeyedList, setAttribute, setText } from "../dom.ts";
import { clock, count, fromTo, milliseconds, UNKNOWN } from "../format.ts";
import { conversation as conversationReader, type Conversation, type ConversationSummary } from "../protocol/topics.ts";
import { ChatView } from "./chat.ts";

const REFRESH_MS = 1000;

const TONES: Record<ConversationSummary["status"], string> = { active: "live", done: "good", failed: "bad", abandoned: "warn" };

class Row {
  readonly element: HTMLElement;
  readonly #link: HTMLAnchorElement;
  readonly #status = h("span", { class: "pill" });
  readonly #turns = h("td", { class: "num" });
  readonly #duration = h("td", { class: "num wide-only" });
  readonly #ttft = h("td", { class: "num" });
  readonly #workers = h("td", {});

  constructor(summary: ConversationSummary) {
    this.#link = h("a", { href: `#/conversations/${encodeURIComponent(summary.conversation)}` }, summary.conversation);
    const started = h("td", { class: "num soft wide-only" }, clock(summary.started_ms === null ? null : summary.started_ms / 1000));
    this.element = h("tr", {}, h("th", { scope: "row" }, this.#link), h("td", {}, this.#status), this.#turns, started, this.#duration, this.#ttft, this.#workers);
  }

  show(summary: ConversationSummary, chosen: boolean): void {
    setAttribute(this.#link, "aria-current", chosen ? "true" : undefined);
    setText(this.#status, summary.status);
    setAttribute(this.#status, "data-tone", TONES[summary.status]);
    setAttribute(this.#status, "title", summary.error || undefined);
    setAttribute(this.#turns, "title", "ended, and under way");
    setText(this.#turns, summary.status === "active" ? `${count(summary.turns_done)} + ${count(summary.turns - summary.turns_done)}` : count(summary.turns_done));
    setText(this.#duration, milliseconds(summary.duration_ms));
    setText(this.#ttft, summary.turns > 1 ? fromTo(summary.ttft_first_ms, summary.ttft_last_ms) : milliseconds(summary.ttft_first_ms));
    setText(this.#workers, summary.workers.length > 0 ? summary.workers.join(" → ") : UNKNOWN);
  }
}

export class ConversationsView implements View {
  readonly element: HTMLElement;
  readonly #rows: KeyedList<ConversationSummary, Row>;
  readonly #empty = h("p", { class: "empty" });
  readonly #total = h("p", { class: "note" });
  readonly #table: HTMLElement;
  readonly #chat: ChatView;
  #chosen = "";
  #asked = 0;
  #subscribed = false;

  constructor(private readonly context: Context) {
    const body = h("tbody", {});
    this.#rows = new KeyedList(body, (summary) => summary.conversation, (summary) => new Row(summary), (row, summary) => row.show(summary, summary.conversation === this.#chosen));
    this.#table = h("table", { class: "list" }, h("thead", {}, h("tr", {}, ...[
      ["Conversation", ""], ["Status", ""], ["Turns", "num"], ["Started", "num wide-only"], ["Duration", "num wide-only"], ["TTFT, 1st → last", "num"], ["Workers", ""],
    ].map(([title, kind]) => h("th", { scope: "col", class: kind! }, title!)))), body);
    this.#chat = new ChatView();
    this.element = h("div", { class: "view split" },
      h("section", { class: "card master", "aria-label": "Conversations" }, h("div", { class: "card-head" }, h("h2", {}, "Conversations"), this.#total), this.#empty,
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of conversations" }, this.#table)),
      this.#chat.element);
  }

  enter(rest: string): void {
    this.#chosen = rest;
    this.#asked = 0;
    setAttribute(this.element, "data-detail", rest === "" ? undefined : "open");
    if (rest !== "") this.#chat.wait(rest);
    else this.#chat.none();
  }

  leave(): void {
    if (!this.#subscribed) return;
    this.#subscribed = false;
    this.context.connection.unsubscribe("conversations").catch(() => undefined);  // lost: nothing is subscribed any more
  }

  show(): void {
    const { store } = this.context;
    this.#subscribe();
    const list = store.conversations;
    this.#table.hidden = !list || list.conversations.length === 0;
    this.#empty.hidden = !this.#table.hidden;
    setText(this.#empty, list === null ? "Waiting for the list." : "No conversation yet. Start the load in the first view; each conversation appears here with its first turn.");
    setText(this.#total, list ? `${count(list.conversations.length)} newest of ${count(list.total)}` : "");
    this.#rows.show(list?.conversations ?? []);
    this.#refreshChat();
  }

  #subscribe(): void {
    const open = this.context.store.connection.state === "open";
    if (!open) this.#subscribed = false;
    if (!open || this.#subscribed || this.context.store.hello === null) return;
    this.#subscribed = true;
    this.context.connection.subscribe("conversations").catch((error: Error) => this.context.tell(error.message));
  }

  #refreshChat(): void {
    const now = performance.now();
    if (this.#chosen === "" || now - this.#asked < REFRESH_MS || this.context.store.connection.state !== "open") return;
    if (this.#chat.shows(this.#chosen) && this.#chat.over()) return;
    this.#asked = now;
    const chosen = this.#chosen;
    this.context.connection.ask("conversation", { conversation: chosen }, conversationReader).then(
      (answer: Conversation) => {
        if (chosen === this.#chosen) this.#chat.show(answer);
      },
      (error: Error) => {
        if (chosen === this.#chosen) this.#chat.fail(error.message);
      },
    );
  }
}
