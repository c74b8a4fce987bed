#include "kvist/workload/load_feed.h"

#include <utility>

#include "kvist/base/utf8.h"

namespace kvist::workload {
namespace {

/// Chunks within so long are one entry.
constexpr Duration kTogether = std::chrono::milliseconds(10);

/// The sample without what is large.
TurnSample without_chunks(const TurnSample& sample) {
  return {.conversation = sample.conversation,
          .turn = sample.turn,
          .session = sample.session,
          .outcome = sample.outcome,
          .error = sample.error,
          .worker = sample.worker,
          .intended = sample.intended,
          .ready = sample.ready,
          .handed = sample.handed,
          .sent = sample.sent,
          .first_token = sample.first_token,
          .last_token = sample.last_token,
          .ended = sample.ended,
          .prompt_tokens = sample.prompt_tokens,
          .cached_tokens = sample.cached_tokens,
          .completion_tokens = sample.completion_tokens,
          .chunks = sample.chunks,
          .predicted_cached_tokens = sample.predicted_cached_tokens,
          .gaps_ms = {},
          .late_ms = {},
          .unsure_ms = {}};
}

}  // namespace

bool LoadFeed::has_room(std::size_t entries) {
  if (entries < limits_.entries) return true;
  ++batch_.lost;
  return false;
}

ShownMessage LoadFeed::shown(std::string_view role, std::string_view text) {
  std::string_view kept = text.substr(0, limits_.message_bytes);
  if (kept.size() < text.size()) kept.remove_suffix(utf8_incomplete_tail(kept));
  text_bytes_ += kept.size();
  return {.role = std::string(role.substr(0, 32)), .text = std::string(kept), .cut = kept.size() < text.size()};
}

void LoadFeed::on_turn_started(TimePoint now, const StartTurn& turn) {
  if (turn.turn == 0 && has_room(batch_.conversation_starts.size())) batch_.conversation_starts.push_back(now);
  if (!has_room(batch_.started.size())) return;
  batch_.started.push_back({.at = now, .conversation = turn.conversation, .turn = turn.turn, .added = {}});
  if (turn.messages.empty()) return;
  // The answer before is known already; what is new is what the user says.
  const std::size_t first = turn.turn == 0 ? 0 : turn.messages.size() - 1;
  constexpr std::size_t kMostMessages = 16;
  for (std::size_t i = first; i < turn.messages.size() && i - first < kMostMessages; ++i) {
    if (text_bytes_ >= limits_.text_bytes) return;
    batch_.started.back().added.push_back(shown(turn.messages[i].role, turn.messages[i].content));
  }
}

void LoadFeed::on_content(TimePoint at, std::uint32_t chunks, std::optional<Duration> ttft,
                          std::span<const float> gaps_ms) {
  if (ttft && has_room(batch_.first_tokens.size())) batch_.first_tokens.push_back({.at = at, .ttft = *ttft});
  if (!batch_.chunks.empty() && at - batch_.chunks.back().at < kTogether) {
    batch_.chunks.back().count += chunks;
  } else if (has_room(batch_.chunks.size())) {
    batch_.chunks.push_back({.at = at, .count = chunks});
  }
  if (batch_.gaps_ms.size() + gaps_ms.size() <= limits_.gaps) {
    batch_.gaps_ms.insert(batch_.gaps_ms.end(), gaps_ms.begin(), gaps_ms.end());
  } else {
    ++batch_.lost;
  }
}

void LoadFeed::on_turn_finished(const TurnSample& sample, std::string_view answer) {
  if (!has_room(batch_.ended.size())) return;
  batch_.ended.push_back({.sample = without_chunks(sample), .answer = {}});
  if (text_bytes_ < limits_.text_bytes) batch_.ended.back().answer = shown("assistant", answer);
}

LoadBatch LoadFeed::take() {
  text_bytes_ = 0;
  return std::exchange(batch_, {});
}

}  // namespace kvist::workload
