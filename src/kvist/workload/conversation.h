// One multi-turn chat: what to send next, given the replies so far.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/spec/workload.h"
#include "kvist/text/chat.h"
#include "kvist/workload/dataset.h"

namespace kvist::workload {

/// A conversation begins with a shared starter, or with a text of its own if there are none, and continues with
/// follow-ups of its own, or of a list. Replies stay in its history, live or recorded. Its number of turns, starter,
/// follow-ups and answer seeds depend on (run seed, conversation id, turn) alone, never on replies or timing: both arms
/// of a comparison get the same conversation under the same id. Owned by the LoadDriver; keeps a reference to the data
/// set.
class Conversation {
 public:
  /// `spec` and `dataset` must outlive the conversation.
  Conversation(const spec::WorkloadSpec& spec, const Dataset& dataset, std::uint64_t run_seed, ConversationId id);

  [[nodiscard]] ConversationId id() const { return id_; }
  /// The number of turns if none fails.
  [[nodiscard]] std::uint32_t turns() const { return turns_; }
  /// The turn that is to be sent or under way, from 0.
  [[nodiscard]] std::uint32_t turn() const { return turn_; }
  [[nodiscard]] bool is_at_last_turn() const { return turn_ + 1 >= turns_; }
  /// The complete history that this turn sends. It ends with a user message.
  [[nodiscard]] const std::vector<text::ChatMessage>& messages() const { return messages_; }
  /// The limit of this turn's answer: the script's, or drawn from the workload's range.
  [[nodiscard]] std::uint32_t max_tokens() const;
  /// Whether answers run to their limit.
  [[nodiscard]] bool ignore_eos() const { return spec_->ignore_eos; }
  /// The seed of this turn's answer. It is below 2^53, so that every JSON reader keeps it exact.
  [[nodiscard]] std::uint64_t answer_seed() const;

  /// Adds the reply to this turn, or the recorded one in its place, and goes on to the next. Returns false if this was
  /// the last turn.
  [[nodiscard]] bool advance(std::string reply);

 private:
  /// The reply to this turn that does not depend on the target; empty: none is known.
  [[nodiscard]] std::string recorded_reply() const;

  const spec::WorkloadSpec* spec_;
  const Dataset* dataset_;
  const ChatScript* script_;  // null: drawn
  std::uint64_t run_seed_;
  ConversationId id_;
  std::uint32_t turns_ = 0;
  std::uint32_t turn_ = 0;
  std::vector<text::ChatMessage> messages_;
};

}  // namespace kvist::workload
