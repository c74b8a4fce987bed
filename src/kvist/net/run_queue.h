// Private to net: how long a thread had to wait for a processor, as the system counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// What a thread has had since its start.
struct RunQueueTime {
  Duration waited{};        ///< ready to run, without a processor
  std::uint64_t begun = 0;  ///< how many times it was given one: after a sleep, a preemption, a stop by a signal
};

/// From the text of /proc/thread-self/schedstat.
[[nodiscard]] std::optional<RunQueueTime> parse_run_queue(std::string_view schedstat);

/// When a thread that slept until there was something to do was woken at the earliest, if it was given a processor at
/// `now`; nothing: that cannot be told, as it was also preempted or stopped, or the system does not count.
[[nodiscard]] std::optional<TimePoint> woken_at(const std::optional<RunQueueTime>& before,
                                                const std::optional<RunQueueTime>& after, TimePoint now);

/// Reads the figures of the thread that calls it first. Threads: that one.
class RunQueue {
 public:
  /// Nothing: not known on this system.
  [[nodiscard]] std::optional<RunQueueTime> read();

 private:
  bool opened_ = false;
  UniqueFd file_;
};

}  // namespace kvist::net
