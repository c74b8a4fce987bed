#include "kvist/workload/turn_clock.h"

#include <utility>

namespace kvist::workload {

TurnClock::TurnClock(ConversationId conversation, std::uint32_t turn, TimePoint intended, Gaps gaps) : gaps_(gaps) {
  sample_.conversation = conversation;
  sample_.turn = turn;
  sample_.intended = sample_.ready = intended;
}

void TurnClock::on_route(std::string worker, std::optional<std::uint32_t> predicted_cached_tokens) {
  sample_.worker = std::move(worker);
  sample_.predicted_cached_tokens = predicted_cached_tokens;
}

void TurnClock::on_age(std::uint32_t chunks, ChunkAge age) {
  if (gaps_ == Gaps::kDrop || chunks == 0) return;
  const float late = static_cast<float>(to_milliseconds(age.at_least));
  const float unsure = static_cast<float>(to_milliseconds(age.at_most - age.at_least));
  if (!age.stamped) sample_.unstamped += chunks;
  if (unsure > 0 || !sample_.unsure_ms.empty()) {
    sample_.unsure_ms.resize(sample_.late_ms.size());
    sample_.unsure_ms.resize(sample_.late_ms.size() + chunks, unsure);
  }
  sample_.late_ms.resize(sample_.late_ms.size() + chunks, late);
}

void TurnClock::on_usage(std::uint32_t prompt_tokens, std::optional<std::uint32_t> cached_tokens,
                         std::uint32_t completion_tokens) {
  sample_.prompt_tokens = prompt_tokens;
  sample_.cached_tokens = cached_tokens.value_or(0);
  sample_.reports_cached = cached_tokens.has_value();
  sample_.completion_tokens = completion_tokens;
}

Result<void> TurnClock::check_answer() const {
  if (!has_first_token()) return fail(ErrorCode::kCorrupt, "the answer had no content");
  return {};
}

TurnSample TurnClock::finish(TurnOutcome outcome, std::string error, TimePoint ended) {
  sample_.outcome = outcome;
  sample_.error = std::move(error);
  sample_.ended = ended;
  return std::move(sample_);
}

}  // namespace kvist::workload
