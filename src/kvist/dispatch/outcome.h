// How requests end, and counts of that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvist::dispatch {

/// How a request ended. Each request that was given to Dispatcher::start() has exactly one outcome.
enum class Outcome : std::uint8_t {
  kCompleted,       ///< the client got the worker's complete answer
  kRejected,        ///< too many in flight, too long a wait, or the gateway ends; no worker was tried
  kNoWorker,        ///< no worker could take it
  kRefused,         ///< the worker's 4xx was passed on
  kBackPressure,    ///< the worker's 429 or 503 was passed on, because no other worker was left
  kWorkerError,     ///< the worker's 5xx, or an error frame in its stream, was passed on, or its answer was too large
  kUpstreamFailed,  ///< the connection to the worker failed before the answer began
  kTimedOut,        ///< the deadline of the whole request passed
  kBrokenStream,    ///< the connection to the worker failed after the answer began
  kClientGone,      ///< the client left
  kExhausted,       ///< the gateway itself had no socket to reach a worker with
};
inline constexpr std::size_t kOutcomes = 11;
[[nodiscard]] std::string_view to_string(Outcome outcome);

/// Requests by outcome.
struct OutcomeCounts {
  std::array<std::uint64_t, kOutcomes> by_outcome{};
  void add(Outcome outcome) { ++by_outcome[static_cast<std::size_t>(outcome)]; }
  [[nodiscard]] std::uint64_t of(Outcome outcome) const { return by_outcome[static_cast<std::size_t>(outcome)]; }
};

}  // namespace kvist::dispatch
