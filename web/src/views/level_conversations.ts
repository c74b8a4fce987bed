// The conversations of one measured level: a list, and one of them turn by turn.
import { h, replaceChildren, setText } from "../dom.ts";
import { count, fromTo, milliseconds, UNKNOWN } from "../format.ts";
import type { Conversation } from "../protocol/topics.ts";
import { ChatView } from "./chat.ts";

const MOST_ROWS = 100;

export class LevelConversations {
  readonly element: HTMLDetailsElement;
  readonly #summary = h("summary", {});
  readonly #body = h("tbody", {});
  readonly #chat = new ChatView();

  constructor() {
    const head = h("thead", {}, h("tr", {}, ...[["Conversation", ""], ["Status", ""], ["Turns", "num"], ["Duration", "num"], ["TTFT, 1st \u2192 last", "num"], ["Workers", ""]].map(([title, kind]) => h("th", { scope: "col", class: kind! }, title!))));
    this.element = h("details", { class: "level-conversations" }, this.#summary, h("div", { class: "split" },
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conversations of the level" }, h("table", { class: "list" }, head, this.#body)), this.#chat.element));
  }

  /** `total`: of the level, of which the server sends the first. */
  show(conversations: readonly Conversation[], total: number): void {
    this.element.hidden = conversations.length === 0;
    const shown = Math.min(MOST_ROWS, conversations.length);
    setText(this.#summary, `Its conversations, turn by turn (${shown < total ? `the first ${shown} of ` : ""}${count(total)})`);
    replaceChildren(this.#body, ...conversations.slice(0, MOST_ROWS).map((conversation) => this.#row(conversation)));
    this.#chat.none();
  }

  #row(conversation: Conversation): HTMLElement {
    const open = h("button", { type: "button", class: "link", onclick: () => this.#chat.show(conversation) }, conversation.conversation);
    return h("tr", {}, h("th", { scope: "row" }, open), h("td", {}, conversation.status), h("td", { class: "num" }, count(conversation.turns)), h("td", { class: "num" }, milliseconds(conversation.duration_ms)),
      h("td", { class: "num" }, fromTo(conversation.ttft_first_ms, conversation.ttft_last_ms)), h("td", {}, conversation.workers.join(" \u2192 ") || UNKNOWN));
  }
}
