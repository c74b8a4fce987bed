// Answers that can be taken later than in the step that samples them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// What an executor can offer whose answers depend on their request alone, and not on the steps that compute them: the
/// tokens of several steps at once. See DecodeRun.
class AnswerSource {
 public:
  virtual ~AnswerSource() = default;

  /// How many tokens of the answer in this slot are left to be sampled, the one that ends it included; the greatest
  /// number if it goes on until it is cut. Nothing if each step has to be asked (log probabilities). Requires: the slot
  /// is taken.
  [[nodiscard]] virtual std::optional<std::uint64_t> tokens_left(SlotId slot) const = 0;
  /// Appends the next `count` tokens to `tokens`: those that Executor::finish() would give in the next `count` steps
  /// without drafts. Requires: fewer than tokens_left().
  virtual void take(SlotId slot, std::uint32_t count, std::vector<TokenId>& tokens) = 0;
};

}  // namespace kvist::engine
