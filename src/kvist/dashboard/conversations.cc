#include "kvist/dashboard/conversations.h"

#include <algorithm>
#include <charconv>
#include <ranges>
#include <string_view>
#include <utility>

#include "kvist/dashboard/json_fields.h"

namespace kvist::dashboard {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

std::string_view status_of(const ShownTurn& turn) {
  if (!turn.ended) return "active";
  switch (turn.sample.outcome) {
    case TurnOutcome::kSucceeded:
      return "succeeded";
    case TurnOutcome::kFailed:
      return "failed";
    case TurnOutcome::kAbandoned:
      return "abandoned";
  }
  return "failed";
}

/// Between two turns a conversation thinks, so that it is seen as done until the next begins.
std::string_view status_of(const ShownConversation& conversation) {
  if (conversation.turns.empty()) return "active";
  const std::string_view last = status_of(conversation.turns.back());
  return last == "succeeded" ? "done" : last;
}

std::size_t bytes_of(const std::vector<workload::ShownMessage>& messages) {
  std::size_t bytes = 0;
  for (const workload::ShownMessage& message : messages) bytes += message.text.size();
  return bytes;
}

std::optional<double> ttft_of(const ShownTurn& turn) {
  if (!turn.ended || turn.sample.first_token == TimePoint{}) return std::nullopt;
  return turn.sample.ttft_ms();
}

void write_texts(JsonWriter& json, const ShownTurn& turn, bool kept) {
  bool cut = turn.answer.cut;
  json.key("messages");
  if (!kept || turn.messages.empty()) {
    json.null();
  } else {
    json.begin_array();
    for (const workload::ShownMessage& message : turn.messages) {
      json.begin_object().field("role", message.role).field("text", message.text).end_object();
      cut = cut || message.cut;
    }
    json.end_array();
  }
  json.key("answer");
  if (!kept || !turn.ended) {
    json.null();
  } else {
    json.value(turn.answer.text);
  }
  json.field("truncated", cut);
}

/// Many servers leave cached tokens out, some only where there are none: no turn's are known until one has told them.
bool reports_cached(const std::vector<ShownTurn>& turns) {
  return std::ranges::any_of(turns, [](const ShownTurn& turn) {
    return turn.ended && (turn.sample.reports_cached || turn.sample.cached_tokens > 0);
  });
}

/// What of a conversation its turns do not know themselves.
struct TurnContext {
  bool texts_kept = true;
  bool reports_cached = false;
};

void write_turn(JsonWriter& json, const ShownTurn& turn, const TurnContext& context, const UnixMs& unix_ms) {
  const TurnSample& sample = turn.sample;
  const bool usage = turn.ended && sample.has_usage();
  const auto count = [&](std::uint32_t value) { return usage ? std::optional(value) : std::nullopt; };
  json.begin_object().field("turn", turn.turn + 1).field("status", status_of(turn));
  text_or_null(json, "worker", sample.worker);
  json.field("sent_ms", unix_ms(turn.ended && sample.sent != TimePoint{} ? sample.sent : turn.begun));
  optional_field(json, "ttft_ms", ttft_of(turn));
  const bool done = turn.ended && sample.outcome == TurnOutcome::kSucceeded;
  optional_field(json, "tpot_ms", done ? sample.tpot_ms() : std::nullopt);
  optional_field(json, "latency_ms", done ? std::optional(sample.latency_ms()) : std::nullopt);
  optional_field(json, "prompt_tokens", count(sample.prompt_tokens));
  optional_field(json, "cached_tokens", context.reports_cached ? count(sample.cached_tokens) : std::nullopt);
  optional_field(json, "output_tokens", count(sample.completion_tokens));
  optional_field(json, "predicted_cached_tokens", turn.ended ? sample.predicted_cached_tokens : std::nullopt);
  write_texts(json, turn, context.texts_kept);
  json.field("error", sample.error).end_object();
}

}  // namespace

std::string ShownConversation::key() const {
  return std::to_string(run) + "-" + std::to_string(id.value());
}

void Conversations::begin_run() {
  ++run_;
  ++version_;
  for (ShownConversation& conversation : std::views::values(all_)) {
    if (conversation.turns.empty() || conversation.turns.back().ended) continue;
    ShownTurn& last = conversation.turns.back();
    last.ended = true;
    last.sample.outcome = TurnOutcome::kAbandoned;
    last.sample.ended = last.begun;
  }
}

ShownConversation& Conversations::find_or_add(ConversationId id) {
  const auto [at, added] = all_.try_emplace({run_, id});
  if (added) {
    at->second.id = id;
    at->second.run = run_;
    ++total_;
  }
  return at->second;
}

void Conversations::add(const workload::LoadBatch& batch) {
  if (batch.started.empty() && batch.ended.empty()) return;
  ++version_;
  for (const workload::LoadBatch::StartedTurn& started : batch.started) {
    ShownConversation& conversation = find_or_add(started.conversation);
    if (conversation.turns.size() >= limits_.turns) continue;
    ShownTurn turn{.turn = started.turn, .begun = started.at};
    if (conversation.texts_kept) {
      turn.messages = started.added;
      const std::size_t bytes = bytes_of(turn.messages);
      conversation.text_bytes += bytes;
      text_bytes_ += bytes;
    }
    conversation.turns.push_back(std::move(turn));
  }
  for (const workload::LoadBatch::EndedTurn& ended : batch.ended) {
    const auto found = all_.find({run_, ended.sample.conversation});
    if (found == all_.end()) continue;  // it was given up before it ended
    ShownConversation& conversation = found->second;
    const auto turn = std::ranges::find(conversation.turns, ended.sample.turn, &ShownTurn::turn);
    if (turn == conversation.turns.end()) continue;
    turn->sample = ended.sample;
    turn->ended = true;
    if (!conversation.texts_kept) continue;
    turn->answer = ended.answer;
    conversation.text_bytes += ended.answer.text.size();
    text_bytes_ += ended.answer.text.size();
  }
  keep_bounds();
}

void Conversations::drop_texts(ShownConversation& conversation) {
  text_bytes_ -= std::exchange(conversation.text_bytes, 0);
  conversation.texts_kept = false;
  for (ShownTurn& turn : conversation.turns) {
    turn.messages = {};
    turn.answer = {};
  }
}

void Conversations::keep_bounds() {
  while (all_.size() > limits_.conversations) {
    text_bytes_ -= all_.begin()->second.text_bytes;
    all_.erase(all_.begin());
  }
  for (ShownConversation& conversation : std::views::values(all_)) {
    if (text_bytes_ <= limits_.text_bytes) return;
    if (conversation.texts_kept) drop_texts(conversation);
  }
}

void write_conversation(JsonWriter& json, const ShownConversation& conversation, bool with_turns, TimePoint now,
                        const UnixMs& unix_ms) {
  const auto& turns = conversation.turns;
  const std::string_view status = status_of(conversation);
  const auto ended = std::ranges::count_if(turns, &ShownTurn::ended);
  const TimePoint begun = turns.empty() ? now : turns.front().begun;
  const TimePoint end = status == "active" ? now : turns.back().sample.ended;
  json.field("conversation", conversation.key()).field("status", status);
  json.field("turns", turns.size()).field("turns_done", ended).field("started_ms", unix_ms(begun));
  optional_field(json, "ended_ms", status == "active" ? std::nullopt : std::optional(unix_ms(end)));
  json.field("duration_ms", to_milliseconds(std::max(Duration{}, end - begun))).key("workers").begin_array();
  std::string_view before;
  for (const ShownTurn& turn : turns) {
    if (turn.sample.worker.empty() || turn.sample.worker == before) continue;
    before = turn.sample.worker;
    json.value(before);
  }
  json.end_array();
  const auto last = std::ranges::find_if(turns.rbegin(), turns.rend(),
                                         [](const ShownTurn& turn) { return ttft_of(turn).has_value(); });
  optional_field(json, "ttft_first_ms", turns.empty() ? std::nullopt : ttft_of(turns.front()));
  optional_field(json, "ttft_last_ms", last == turns.rend() ? std::nullopt : ttft_of(*last));
  json.field("error", turns.empty() ? std::string() : turns.back().sample.error);
  if (!with_turns) return;
  json.field("messages_kept", conversation.texts_kept).key("turns_list").begin_array();
  const TurnContext context{.texts_kept = conversation.texts_kept, .reports_cached = reports_cached(turns)};
  for (const ShownTurn& turn : turns) write_turn(json, turn, context, unix_ms);
  json.end_array();
}

std::string Conversations::list_json(TimePoint now, const UnixMs& unix_ms) const {
  JsonWriter json;
  json.begin_object().field("type", "conversations").field("total", total_).key("conversations").begin_array();
  std::size_t listed = 0;
  for (const auto& [key, conversation] : std::views::reverse(all_)) {
    if (listed++ == kListed) break;
    json.begin_object();
    write_conversation(json, conversation, false, now, unix_ms);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::optional<std::string> Conversations::json(std::string_view key, TimePoint now, const UnixMs& unix_ms) const {
  std::uint64_t run = 0;
  std::uint64_t id = 0;
  const char* const end = key.data() + key.size();
  const auto first = std::from_chars(key.data(), end, run);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, id);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  const auto found = all_.find({run, ConversationId(id)});
  if (found == all_.end()) return std::nullopt;
  JsonWriter json;
  json.begin_object();
  write_conversation(json, found->second, true, now, unix_ms);
  json.end_object();
  return json.take();
}

}  // namespace kvist::dashboard
