// A load that is driven, on one loop or on several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/pause_watch.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// How a loop kept up.
struct LoopHealth {
  double loop_delay_p99_ms = 0;
  double loop_delay_max_ms = 0;
  std::uint64_t loop_stalls = 0;                 ///< ticks that were late by a whole period (10 ms) or more
  double loop_stalled_ms = 0;                    ///< the sum of them
  std::optional<double> run_queue_seconds = {};  ///< its thread waited for a processor; nothing: not known here
};

/// The load of the client itself since the last start() or raise(). With several loops the values are those of the
/// worst one; stalls are sums.
struct ClientLoad {
  double loop_delay_p99_ms = 0;
  double loop_delay_max_ms = 0;
  std::uint64_t loop_stalls = 0;                 ///< ticks that were late by a whole period (10 ms) or more
  double loop_stalled_ms = 0;                    ///< the sum of them
  double cpu_seconds = 0;                        ///< of this process since then
  std::optional<double> run_queue_seconds = {};  ///< the loop's thread waited for a processor; nothing: not known here
  std::optional<double> steal_share = {};        ///< of all processors' time; nothing: not known here
  std::optional<WatchedPauses> pauses = {};      ///< of the processors; nothing: nobody watched
  std::optional<std::string> refused_starts = {};  ///< a remark on open arrivals that found no place
  std::vector<LoopHealth> loops = {};              ///< each, if there are several
};

/// What a progress line says. With several threads rates are sums and percentiles are means of the threads' percentiles
/// (each drives a random part of the same load); the figures at the end are exact.
struct Progress {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t samples_refused = 0;
  workload::Snapshot window;
  std::optional<double> itl_p50_ms, itl_p95_ms;
};

/// A load that can be started and stopped. Threads: the loop's on which callbacks come.
class Load {
 public:
  virtual ~Load() = default;

  /// The port of metrics and control API.
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Makes the shared texts of a load with this seed, which takes long, so that start() begins at once. They are kept
  /// until another seed is asked for.
  [[nodiscard]] virtual Result<void> prepare(std::uint64_t seed) = 0;
  /// Begins to drive `concurrency` conversations at once or, with open arrivals, that many starts per minute. Errors:
  /// kInvalidArgument while running.
  [[nodiscard]] virtual Result<void> start(std::uint32_t concurrency, std::uint64_t seed) = 0;
  /// When the schedule of the last start() begins, if that is later than the call; nothing: with it.
  [[nodiscard]] virtual std::optional<TimePoint> begins_at() const { return std::nullopt; }
  /// Starts no further turns. With `drain`, turns in flight may end; without, they are cancelled (kAbandoned). Calls
  /// `stopped` when nothing is in flight any more.
  virtual void stop(bool drain, std::function<void()> stopped) = 0;
  /// Sets what is called from the loop when a load has ended by itself: as many turns as were ordered were driven, or
  /// the source (a trace, a profile of arrivals) has nothing more to do, and nothing is in flight.
  virtual void on_ended(std::function<void()> ended) = 0;
  /// Called when a load is over, whoever ended it, before another one can begin: nothing is in flight any more, and
  /// take_samples() has all of it. `stopped`: when it was told to stop; nothing: it ended by itself. It must not
  /// destroy the load.
  using Over = std::function<void(std::optional<TimePoint> stopped)>;
  /// A load that is started once never calls it.
  virtual void on_over(Over /*over*/) {}
  /// Whether the load has sent its last turn by itself, so that only answers are awaited; true when idle.
  [[nodiscard]] virtual bool is_exhausted() const = 0;
  [[nodiscard]] virtual std::uint32_t in_flight() const = 0;
  /// The progress of the last `within`, which is at most the window.
  [[nodiscard]] virtual Progress progress(Duration within) const = 0;
  [[nodiscard]] virtual ClientLoad client_load() const = 0;
  /// Why the last load ended before its time: the server refuses it as such (RefusalWatch). Nothing: it did not, or it
  /// was driven by other machines, which say so in their logs.
  [[nodiscard]] virtual std::optional<std::string> given_up() const { return std::nullopt; }
  /// Open arrivals of the last load that waited for a place, as of its stop.
  [[nodiscard]] virtual workload::HeldBack held_back() const = 0;
  /// The changes since start(), in their order.
  [[nodiscard]] virtual const std::vector<workload::AppliedChange>& changes() const = 0;
  /// Returns all samples since start() and keeps none.
  [[nodiscard]] virtual std::vector<workload::TurnSample> take_samples() = 0;
};

}  // namespace kvist::loadgen
