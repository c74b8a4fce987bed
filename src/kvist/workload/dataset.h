// The shared first messages of a run, which a prefix cache can reuse across conversations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/spec/workload.h"
#include "kvist/text/token_prose.h"

namespace kvist::workload {

/// What one user says, turn by turn, read from a file: each message is sent after the reply to the one before.
struct ChatScript {
  std::string system;  ///< first message of the conversation; empty: none
  struct Turn {
    std::string message;
    std::uint32_t max_tokens = 0;  ///< of its answer; 0: the workload's
    std::string reply = {};        ///< the data set's answer, if it was read
  };
  std::vector<Turn> turns;  ///< at least one
};

/// The starters of one run (none if conversations share none), drawn from the run's seed. Two runs with the same seed
/// have the same starters. Two runs with different seeds share no prefix, so that the second does not find the first
/// one's blocks in the cache. Immutable; any thread may read it.
class Dataset {
 public:
  /// Requires: a specification that check_workload() accepts.
  /// With `scripts` there are no starters.
  /// With `tokens` texts have exactly as many tokens of that tokenizer as the workload says; otherwise as many bytes.
  Dataset(const spec::WorkloadSpec& spec, std::uint64_t run_seed,
          std::shared_ptr<const std::vector<ChatScript>> scripts = nullptr,
          std::shared_ptr<const text::TokenProse> tokens = nullptr);

  [[nodiscard]] std::size_t size() const { return starters_.size(); }
  [[nodiscard]] const std::string& starter(std::size_t index) const { return starters_[index]; }
  /// A text of so many tokens. If it stands behind another text, a space comes before it where words need one.
  [[nodiscard]] std::string text_of(std::uint64_t seed, std::uint32_t tokens,
                                    text::TokenProse::Begins begins = text::TokenProse::Begins::kAText) const;
  /// The text of the conversation's group, with which its first message begins; empty without groups.
  [[nodiscard]] std::string_view prefix_of(ConversationId conversation) const;
  /// The script of a conversation; null if conversations are drawn. All scripts come once, in an order that follows
  /// from the seed, then all again in another order.
  [[nodiscard]] const ChatScript* script_of(ConversationId conversation) const;

 private:
  std::uint64_t run_seed_;
  std::vector<std::string> starters_;
  std::vector<std::string> prefixes_;  // by group
  std::vector<double> shares_;         // cumulative, by group
  std::shared_ptr<const std::vector<ChatScript>> scripts_;
  std::shared_ptr<const text::TokenProse> tokens_;  // null: a token is a byte
};

}  // namespace kvist::workload
