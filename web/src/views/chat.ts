// One conversation as a chat: what was said, and beside each answer how fast it came, from where, and how much of its prompt was cached.
import { h, KeyedList, replaceChildren, setAttribute, setText } from "../dom.ts";
import { count, isKnown, milliseconds, percent, plural, UNKNOWN } from "../format.ts";
import type { Conversation, Turn } from "../protocol/topics.ts";

const NOT_KEPT = "The text was not kept.";

/** Long texts scroll within their bubble, so the keyboard must reach it; short ones would only be stops on its way. */
function reachable(text: string): "0" | undefined {
  return text.length > 350 || text.split("\n").length > 8 ? "0" : undefined;
}

class Figure {
  readonly element: HTMLElement;
  readonly #value = h("dd", {}, UNKNOWN);

  constructor(title: string, kind: string) {
    this.element = h("div", {}, h("dt", {}, title), this.#value);
    this.#value.dataset["figure"] = kind;
  }

  show(text: string, title?: string): void {
    setText(this.#value, text);
    setAttribute(this.#value, "title", title);
  }
}

class TurnView {
  readonly element: HTMLElement;
  readonly #asked = h("div", { class: "asked" });
  readonly #answer = h("div", { class: "bubble answer" });
  readonly #ttft = new Figure("TTFT", "ttft_ms");
  readonly #cached = new Figure("Cached", "cached_tokens");
  readonly #worker = new Figure("Worker", "worker");
  readonly #latency = new Figure("Latency", "latency_ms");
  readonly #bar = h("span", { class: "bar-fill" });
  readonly #note = h("p", { class: "turn-note" });
  #messages = "";

  constructor(turn: Turn) {
    this.element = h("li", { class: "turn" },
      h("h3", {}, `Turn ${turn.turn}`), this.#asked, this.#answer,
      h("dl", { class: "turn-figures" }, this.#ttft.element, this.#cached.element, this.#worker.element, this.#latency.element),
      h("span", { class: "bar wide", "aria-hidden": "true" }, this.#bar), this.#note);
    this.element.dataset["turn"] = String(turn.turn);
  }

  show(turn: Turn): void {
    this.#showMessages(turn);
    setText(this.#answer, turn.answer ?? (turn.status === "active" ? "…" : NOT_KEPT));
    setAttribute(this.#answer, "tabindex", reachable(turn.answer ?? ""));
    setAttribute(this.#answer, "data-kept", turn.answer === null ? "no" : "yes");
    setAttribute(this.element, "data-status", turn.status);
    this.#ttft.show(milliseconds(turn.ttft_ms), turn.ttft_ms === null ? "no token has come" : undefined);
    const share = isKnown(turn.cached_tokens) && isKnown(turn.prompt_tokens) && turn.prompt_tokens > 0 ? turn.cached_tokens / turn.prompt_tokens : null;
    this.#cached.show(share === null ? UNKNOWN : `${count(turn.cached_tokens)} of ${count(turn.prompt_tokens)} (${percent(share, 0)})`,
      share === null ? "the worker has not told its usage" : `the router predicted ${count(turn.predicted_cached_tokens)}`);
    this.#bar.style.width = `${(100 * (share ?? 0)).toFixed(1)}%`;
    this.#worker.show(turn.worker ?? UNKNOWN, turn.worker === null ? "the answer did not tell its worker" : undefined);
    this.#latency.show(milliseconds(turn.latency_ms), `${plural(turn.output_tokens, "token")}, TPOT ${milliseconds(turn.tpot_ms)}`);
    setText(this.#note, [turn.error ?? "", turn.truncated ? "Texts are cut at 16 KiB." : ""].filter(Boolean).join(" "));
  }

  #showMessages(turn: Turn): void {
    const key = JSON.stringify(turn.messages);
    if (key === this.#messages) return;
    this.#messages = key;
    if (turn.messages === null) {
      replaceChildren(this.#asked, h("div", { class: "bubble user", "data-kept": "no" }, NOT_KEPT));
      return;
    }
    replaceChildren(this.#asked, ...turn.messages.map((message) => h("div", { class: "bubble", "data-role": message.role, tabindex: reachable(message.text) }, h("span", { class: "role" }, message.role), h("span", {}, message.text))));
  }
}

export class ChatView {
  readonly element: HTMLElement;
  readonly #title = h("h2", {}, "A conversation");
  readonly #gain = h("p", { class: "gain" });
  readonly #note = h("p", { class: "empty" });
  readonly #turns: KeyedList<Turn, TurnView>;
  #shown: Conversation | null = null;

  constructor() {
    const list = h("ol", { class: "chat" });
    this.#turns = new KeyedList(list, (turn) => String(turn.turn), (turn) => new TurnView(turn), (view, turn) => view.show(turn));
    this.element = h("section", { class: "card detail", "aria-label": "One conversation" },
      h("a", { class: "back", href: "#/conversations" }, "← all conversations"), this.#title, this.#gain, this.#note, list);
    this.none();
  }

  none(): void {
    this.#shown = null;
    setText(this.#title, "A conversation");
    this.#say("Choose one from the list to see its turns: where each was answered, how much of its prompt was cached there, and how soon the first token came.");
  }

  wait(id: string): void {
    this.#shown = null;
    setText(this.#title, id);
    this.#say("Asking for it …");
  }

  fail(reason: string): void {
    if (this.#shown === null) this.#say(reason);
  }

  shows(id: string): boolean {
    return this.#shown?.conversation === id;
  }

  /** Nothing of it will change any more. */
  over(): boolean {
    return this.#shown !== null && this.#shown.status !== "active";
  }

  show(conversation: Conversation): void {
    this.#shown = conversation;
    setText(this.#title, conversation.conversation);
    const kept = conversation.messages_kept === true;
    setText(this.#note, kept ? "" : "Its texts were not kept; what was measured is here.");
    this.#note.hidden = kept;
    setText(this.#gain, gainText(conversation));
    this.#turns.show(conversation.turns_list);
  }

  #say(text: string): void {
    this.#turns.show([]);
    setText(this.#gain, "");
    this.#note.hidden = false;
    setText(this.#note, text);
  }
}

/** What the cache did for the second turn, in words. */
export function gainText(conversation: Conversation): string {
  const [first, second] = conversation.turns_list;
  if (!first || !second || !isKnown(first.ttft_ms) || !isKnown(second.ttft_ms) || first.ttft_ms <= 0) return "";
  const where = first.worker === null || second.worker === null ? "" : first.worker === second.worker ? `, on the same worker, ${first.worker},` : `, on ${second.worker} instead of ${first.worker},`;
  const share = isKnown(second.cached_tokens) && isKnown(second.prompt_tokens) && second.prompt_tokens > 0 ? ` with ${percent(second.cached_tokens / second.prompt_tokens, 0)} of its prompt cached` : "";
  const ratio = second.ttft_ms / first.ttft_ms;
  const how = ratio < 0.95 ? `${percent(1 - ratio, 0)} sooner than turn 1's` : ratio > 1.05 ? `${percent(ratio - 1, 0)} later than turn 1's` : "as soon as turn 1's";
  return `Turn 2's first token came ${how}${where}${share}.`;
}
