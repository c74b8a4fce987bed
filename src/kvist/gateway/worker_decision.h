// What an administrator has decided of a worker, as the gateways of a group tell each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/time.h"

namespace kvist::gateway {

enum class SharedHold : std::uint8_t { kFree, kCordoned, kDrained, kRemoved };
/// "free", "cordoned", "drained", "removed"
[[nodiscard]] std::string_view to_string(SharedHold hold);

struct WorkerDecision {
  /// What a drain may have been given at most.
  static constexpr Duration kMostTimeout = std::chrono::hours(24);

  std::string worker;
  SharedHold hold = SharedHold::kFree;
  std::optional<Duration> timeout = {};  ///< of kDrained, to the millisecond; nothing: each gateway's own

  bool operator==(const WorkerDecision&) const = default;
};

/// "cordoned NAME", "drained NAME", "drained:MILLISECONDS NAME"
[[nodiscard]] std::string to_row(const WorkerDecision& decision);
/// Nothing: it is no such row.
[[nodiscard]] std::optional<WorkerDecision> read_worker_decision(std::string_view row);

}  // namespace kvist::gateway
