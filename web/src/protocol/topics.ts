// The two topics a view subscribes to (docs/formats/dashboard.md, docs/formats/decisions.md), and a conversation with its turns.
import { type Shaped, flag, list, number, object, optional, text, word, type Reader } from "./read.ts";

const summary = {
  conversation: text,
  status: word("active", "done", "failed", "abandoned"),
  turns: number,
  turns_done: number,
  started_ms: optional(number),
  ended_ms: optional(number),
  duration_ms: optional(number),
  workers: list(text),
  ttft_first_ms: optional(number),
  ttft_last_ms: optional(number),
  error: optional(text),
};

const turn = object({
  turn: number,
  status: word("active", "succeeded", "failed", "abandoned"),
  worker: optional(text),
  sent_ms: optional(number),
  ttft_ms: optional(number),
  tpot_ms: optional(number),
  latency_ms: optional(number),
  prompt_tokens: optional(number),
  cached_tokens: optional(number),
  output_tokens: optional(number),
  predicted_cached_tokens: optional(number),
  messages: optional(list(object({ role: text, text }))),
  answer: optional(text),
  truncated: optional(flag),
  error: optional(text),
});

export const conversationSummary = object(summary);
export const conversation = object({ ...summary, messages_kept: optional(flag), turns_list: list(turn) });
export const conversationsMessage = object({ total: number, conversations: list(conversationSummary) });

/** A cost of null is infinite: the policy did not consider the worker. */
const candidate = object({
  name: text,
  cost: optional(number),
  trust: optional(text),
  cached_tokens: optional(number),
  new_blocks: optional(number),
  load: optional(object({
    requests: optional(number), decoding: optional(number), prefill_tokens: optional(number), output_tokens: optional(number), context_tokens: optional(number),
  })),
  forecast: optional(object({
    step_ms: optional(number), step_with_ms: optional(number), slot_wait_ms: optional(number), queue_ms: optional(number), prefill_ms: optional(number),
    displaced_ms: optional(number), held_up_ms: optional(number), ttft_ms: optional(number), crowding_ms: optional(number),
    answer_tokens: optional(number), has_slot: optional(flag),
  })),
  worker: number,
});

const outcome = object({
  state: word("under_way", "completed", "failed"),
  ttft_ms: optional(number),
  cached_tokens: optional(number),
  output_tokens: optional(number),
  duration_ms: optional(number),
  failure: optional(text),
});

const decision = object({
  request: text,
  number,
  t_ms: optional(number),
  mode: text,
  chosen: number,
  chosen_name: text,
  reason: text,
  prompt_tokens: number,
  candidates: list(candidate),
  left_out: optional(number),
  after: optional(outcome),
});

export const decisionsMessage = object({ total: number, problem: optional(text) as Reader<string | null>, decisions: list(decision) });

export type ConversationSummary = Shaped<{ x: typeof conversationSummary }>["x"];
export type Conversation = Shaped<{ x: typeof conversation }>["x"];
export type Turn = Shaped<{ x: typeof turn }>["x"];
export type ConversationsMessage = Shaped<{ x: typeof conversationsMessage }>["x"];
export type Candidate = Shaped<{ x: typeof candidate }>["x"];
export type Decision = Shaped<{ x: typeof decision }>["x"];
export type DecisionsMessage = Shaped<{ x: typeof decisionsMessage }>["x"];
