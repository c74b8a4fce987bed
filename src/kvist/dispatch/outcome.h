// How requests end, counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvist::dispatch {

/// The end of a request. Exactly one per request that was given to Dispatcher::start().
enum class Outcome : std::uint8_t {
  kCompleted,       ///< the worker's answer went out whole
  kRejected,        ///< too many in flight: no worker was tried
  kNoWorker,        ///< no worker could take it
  kRefused,         ///< the worker's 4xx was passed on
  kBackPressure,    ///< the worker's 429 or 503 was passed on, as no other worker was left to try
  kWorkerError,     ///< the worker's 5xx was passed on, or an error frame in its stream
  kUpstreamFailed,  ///< the connection to the worker failed before the answer began
  kTimedOut,        ///< the deadline of the whole request passed
  kBrokenStream,    ///< the connection to the worker failed after the answer began
  kClientGone,      ///< the client left
};
inline constexpr std::size_t kOutcomes = 10;
[[nodiscard]] std::string_view to_string(Outcome outcome);

/// Requests by outcome.
struct OutcomeCounts {
  std::array<std::uint64_t, kOutcomes> by_outcome{};
  void add(Outcome outcome) { ++by_outcome[static_cast<std::size_t>(outcome)]; }
  [[nodiscard]] std::uint64_t of(Outcome outcome) const { return by_outcome[static_cast<std::size_t>(outcome)]; }
};

}  // namespace kvist::dispatch
