// Traces of kinds of traffic that are not chat: long prompts, retrieval, agents, code completion, reasoning.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/workload/trace.h"

namespace kvist::workload {

/// What the requests of a generated trace are like; lengths in tokens, both ends included.
enum class TrafficKind : std::uint8_t {
  /// Prompts that share nothing: log-normal around 4,000 (sigma 1.3), 100 to 128,000; answers log-normal around 200.
  kLongPrompts,
  /// One of 60 documents of 4,096 to 24,576, the i-th popular 1/i times as often as the first, then a question of 100
  /// to 400; answers of 50 to 300.
  kRetrieval,
  /// Conversations of 20 to 60 short turns behind one of five instructions of 6,144: each turn adds its answer (60 to
  /// 300) and what a tool said (200 to 3,000), 1 to 8 s later; one turn in ten is asked three times at once, as agents
  /// do that try several ways. A conversation ends at 120,000.
  kAgents,
  /// One of 200 files of 2,048 to 15,360 before 20 to 500 at the cursor; answers of 5 to 40.
  kCodeCompletion,
  /// Prompts of 200 to 2,000 that share nothing; answers of 2,000 to 8,000.
  kReasoning,
};
inline constexpr std::array<TrafficKind, 5> kTrafficKinds = {TrafficKind::kLongPrompts, TrafficKind::kRetrieval,
                                                             TrafficKind::kAgents, TrafficKind::kCodeCompletion,
                                                             TrafficKind::kReasoning};
/// long_prompts, retrieval, agents, code_completion, reasoning.
[[nodiscard]] std::string_view to_string(TrafficKind kind);
[[nodiscard]] std::optional<TrafficKind> parse_traffic_kind(std::string_view name);

struct TrafficOptions {
  TrafficKind kind = TrafficKind::kLongPrompts;
  std::uint64_t seed = 1;
  /// Starts of a Poisson process: requests a second, of agents conversations a second.
  double starts_per_s = 1;
  Duration duration = std::chrono::minutes(10);  ///< requests after it are left out
  std::uint32_t tokens_per_hash = 512;
};

/// Requests in the order of their instants, which are whole milliseconds; ids count up as they first appear. Depends on
/// the options alone. Errors: options that are no numbers above 0, or that come to more than 1,000,000 starts.
[[nodiscard]] Result<Trace> generate_traffic(const TrafficOptions& options);

}  // namespace kvist::workload
