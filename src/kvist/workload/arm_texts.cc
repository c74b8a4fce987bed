#include "kvist/workload/arm_texts.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/random.h"
#include "kvist/text/prose.h"

namespace kvist::workload {

std::string opening_of(std::uint64_t key) {
  return fmt::format("[{:016x}] ", key);
}

std::string frozen_reply(std::uint64_t run_seed, ConversationId conversation, std::uint32_t turn,
                         std::uint32_t max_tokens) {
  const std::uint64_t seed = mix_seed({run_seed, seed_part("frozen reply"), conversation.value(), turn});
  return text::prose(seed, max_tokens);
}

std::vector<StartTurn> ArmTextsSource::on_turn_finished(ConversationId conversation, std::string reply,
                                                        TurnOutcome outcome, TimePoint now) {
  const auto entry = in_flight_.find(conversation);
  if (entry != in_flight_.end()) {
    if (texts_.frozen_replies && outcome == TurnOutcome::kSucceeded) {
      reply = frozen_reply(run_seed_, conversation, entry->second.turn, entry->second.max_tokens);
    }
    in_flight_.erase(entry);
  }
  return changed(inner_->on_turn_finished(conversation, std::move(reply), outcome, now));
}

std::vector<StartTurn> ArmTextsSource::changed(std::vector<StartTurn> turns) {
  for (StartTurn& turn : turns) {
    in_flight_[turn.conversation] = {.turn = turn.turn, .max_tokens = turn.max_tokens};
    if (!turn.messages.empty()) turn.messages.front().content.insert(0, texts_.opening);
  }
  return turns;
}

}  // namespace kvist::workload
