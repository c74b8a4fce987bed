// One multi-turn chat: what to send next, given what came back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/spec/workload.h"
#include "kvist/text/chat.h"
#include "kvist/workload/dataset.h"

namespace kvist::workload {

/// A conversation begins with a shared starter, or where there are none with a text of its own, and goes on with
/// follow-ups of its own; the live replies stay in its history. Its number of turns, starter, follow-ups and answer
/// seeds depend on (run seed, conversation id, turn) alone, never on replies or timing: both arms of a comparison get
/// the same conversation under the same id. Owned by the LoadDriver; keeps a reference to the data set.
class Conversation {
 public:
  /// `spec` and `dataset` must outlive the conversation.
  Conversation(const spec::WorkloadSpec& spec, const Dataset& dataset, std::uint64_t run_seed, ConversationId id);

  [[nodiscard]] ConversationId id() const { return id_; }
  /// How many turns it will have if none fails.
  [[nodiscard]] std::uint32_t turns() const { return turns_; }
  /// The turn to send or under way, from 0.
  [[nodiscard]] std::uint32_t turn() const { return turn_; }
  /// The whole history that this turn sends; ends with a user message.
  [[nodiscard]] const std::vector<text::ChatMessage>& messages() const { return messages_; }
  /// The seed this turn's answer is generated from: below 2^53, so that every JSON reader keeps it exact.
  [[nodiscard]] std::uint64_t answer_seed() const;

  /// Takes the live reply to this turn and goes on to the next. False where that was the last one.
  [[nodiscard]] bool advance(std::string reply);

 private:
  const spec::WorkloadSpec* spec_;
  std::uint64_t run_seed_;
  ConversationId id_;
  std::uint32_t turns_ = 0;
  std::uint32_t turn_ = 0;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace kvist::workload
