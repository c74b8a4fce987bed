// How the arms of a sweep are made comparable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvist::spec {

/// The order in which arms are measured.
enum class ArmOrder {
  kAsListed,  ///< one after the other, each with all its levels and repetitions on one deployment
  kAbba,      ///< level by level all arms, every second repetition backwards: a drift in one direction cancels out
  kRandom,    ///< level by level all arms, in an order drawn from the workload's seed, level and repetition
};

/// What is done before each measurement of an arm so that no arm finds what another has cached.
enum class CacheProof {
  kRestart,  ///< a new deployment
  kReset,    ///< the prefix caches are emptied, and the gateway's index is found to be empty
  kNonce,    ///< each conversation begins with a text that only this measurement of this arm has: nothing that another
             ///< has cached can be reused, and what conversations of one measurement share they still share
  kNone,     ///< nothing: whether a cache was warm is only seen by what it saved
};

/// What becomes of an answer in the conversation's next turn.
enum class ArmReplies {
  kLive,    ///< the history has what the target said
  kFrozen,  ///< it has a text of the answer's limit that follows from the seed: prompts are equal in all arms, whatever
            ///< these say
};

/// No further repetition of a level when the interval of the gain of each arm over the first one is so narrow.
struct StopRule {
  std::string metric = "ttft_p50_ms";  ///< one of kFigureKeys, in percent of the baseline's; a percentage is compared
                                       ///< in points
  double half_width = 5;               ///< of the 95 % interval

  bool operator==(const StopRule&) const = default;
};

struct ComparisonSpec {
  ArmOrder order = ArmOrder::kAsListed;
  CacheProof caches = CacheProof::kRestart;
  ArmReplies replies = ArmReplies::kLive;
  std::optional<StopRule> stop_when = {};

  /// Whether every measurement of an arm is a stretch of its own.
  [[nodiscard]] bool alternates() const { return order != ArmOrder::kAsListed; }
  bool operator==(const ComparisonSpec&) const = default;
};

}  // namespace kvist::spec
