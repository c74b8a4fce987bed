// What must hold of every simulated run, whatever its configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/simulation/simulated_gateway.h"
#include "kvist/simulation/simulated_load.h"
#include "kvist/simulation/simulated_worker.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::simulation {

/// A description of a violated invariant; nothing if all hold.
using Violation = std::optional<std::string>;

/// The accounting of the client's side during the run. Little's law is checked exactly: the integral over time of the
/// turns in flight within the window of measurement equals the sum over all turns of the time that each was in flight
/// within it (J. D. C. Little, 1961, with the boundary terms that a finite window has).
class Ledger final : public TurnObserver {
 public:
  /// `limit` is the most turns that may be in flight (a closed loop's concurrency); 0: no limit.
  Ledger(TimePoint measure_from, TimePoint measure_to, std::uint32_t limit)
      : from_(measure_from), to_(measure_to), limit_(limit) {}

  /// Sets the limit that holds from now on.
  void set_limit(std::uint32_t limit) { limit_ = limit; }

  void on_turn_started(TimePoint now) override;
  void on_turn_ended(const workload::TurnSample& sample, TimePoint now) override;
  void on_usage(const Piece& last) override;

  /// Checks the accounting after all turns have ended.
  [[nodiscard]] Violation check() const;

  /// Answers that reached their end, and the sums of their usage.
  struct Usage {
    std::uint64_t answers = 0;
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t completion_tokens = 0;
  };
  [[nodiscard]] const Usage& usage() const { return usage_; }

 private:
  void integrate(TimePoint now);
  [[nodiscard]] Duration within_window(TimePoint begin, TimePoint end) const;

  TimePoint from_;
  TimePoint to_;
  std::uint32_t limit_;
  TimePoint last_;
  std::uint64_t started_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t excess_ = 0;      // the most turns in flight, if they exceeded the limit
  std::int64_t integral_ns_ = 0;  // of turns in flight over the window
  std::int64_t sojourn_ns_ = 0;   // of all turns within the window
  bool times_in_order_ = true;
  Usage usage_;
};

/// Checks that nothing is left in the engine: no request, no step, all blocks free, and all requests that came have
/// ended.
[[nodiscard]] Violation check_drained(const SimulatedWorker& worker);
/// Checks that nothing is left in the gateway: no request, no booked load, and every worker available; that each
/// request ended once; and that the index has as many blocks of each worker as the worker.
[[nodiscard]] Violation check_drained(const SimulatedGateway& gateway, const std::vector<SimulatedWorker>& workers);
/// Checks the sums of tokens: the answers' usage, plus the tokens of aborted answers, is what the engines counted. For
/// prompts it can only be checked that the engines admitted those of all complete answers.
[[nodiscard]] Violation check_tokens(const Ledger& ledger, const std::vector<SimulatedWorker>& workers);

}  // namespace kvist::simulation
