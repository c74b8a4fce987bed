// Finds why the slowest turns were slow, from their workers' timelines.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/results/records.h"

namespace kvist::analysis {

/// What most likely delayed a turn's first token, in the order in which causes are tried (slow_turns.cc has the rules).
enum class SlowCause : std::uint8_t {
  kPreemption,       ///< the worker preempted running requests in that time
  kSlotWait,         ///< every batch slot was taken and requests were queued
  kKvMemoryWait,     ///< slots were free, KV memory was not
  kEvictedPrefix,    ///< the same worker had answered the turn before, and most of the prompt was prefilled again
  kPrefixElsewhere,  ///< another worker had answered the turn before
  kOwnPrefill,       ///< a long prompt that no worker had in its cache
  kPrefillQueue,     ///< prompts of other requests were prefilled first
  kLongStep,         ///< one step of the worker took most of the time
  kNotVisible,       ///< the timeline shows none of these
};
inline constexpr std::size_t kSlowCauses = 9;
[[nodiscard]] std::string_view to_string(SlowCause cause);

/// One turn above the level's TTFT p95.
struct SlowTurn {
  std::uint64_t conversation = 0;
  std::uint32_t turn = 0;
  std::string worker;
  double second = 0;  ///< sent, since the start of the level
  double ttft_ms = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  SlowCause cause = SlowCause::kNotVisible;
  /// The state of the worker while the turn waited: the largest value of each gauge over the readings from the last one
  /// before the turn was sent to the first one after its first token. Nothing if the worker has no timeline.
  struct Reading {
    std::uint32_t running = 0;
    std::uint32_t waiting = 0;
    std::uint64_t prefill_backlog_tokens = 0;
    double kv_used = 0;  ///< 0 to 1
    float step_ms = 0;
    std::uint64_t evictions = 0;    ///< in that time
    std::uint64_t preemptions = 0;  ///< in that time
  };
  std::optional<Reading> reading;
};

/// Successful turns sent within the measuring window whose TTFT is above `threshold_ms`, slowest first. Empty without
/// timelines.
[[nodiscard]] std::vector<SlowTurn> find_slow_turns(const results::LevelRecord& level, double threshold_ms);

/// Turns per cause.
using CauseCounts = std::array<std::size_t, kSlowCauses>;
[[nodiscard]] CauseCounts count_causes(const std::vector<SlowTurn>& turns);

}  // namespace kvist::analysis
