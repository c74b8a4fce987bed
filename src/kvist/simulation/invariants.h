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

/// A violated invariant in words; nothing where all hold.
using Violation = std::optional<std::string>;

/// The books of the client's side, kept while the run goes on. Little's law is checked exactly: the integral over time
/// of the turns in flight within the window of measurement equals the sum over all turns of the time that each was in
/// flight within it (J. D. C. Little, 1961, with the boundary terms that a finite window has).
class Ledger final : public TurnObserver {
 public:
  /// `limit`: no more than this many turns may be in flight (a closed loop's concurrency); 0: no limit.
  Ledger(TimePoint measure_from, TimePoint measure_to, std::uint32_t limit)
      : from_(measure_from), to_(measure_to), limit_(limit) {}

  /// From now on.
  void set_limit(std::uint32_t limit) { limit_ = limit; }

  void on_turn_started(TimePoint now) override;
  void on_turn_ended(const workload::TurnSample& sample, TimePoint now) override;
  void on_usage(const Piece& last) override;

  /// Whether the books balance, all turns having ended.
  [[nodiscard]] Violation check() const;

  /// Answers that came to their end, and what their usage says.
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
  std::uint64_t excess_ = 0;      // most turns in flight while they were more than the limit
  std::int64_t integral_ns_ = 0;  // of turns in flight over the window
  std::int64_t sojourn_ns_ = 0;   // of all turns within the window
  bool times_in_order_ = true;
  Usage usage_;
};

/// Nothing is left in the engine: no request, no step, every block free again, every request that came ended.
[[nodiscard]] Violation check_drained(const SimulatedWorker& worker);
/// Nothing is left in the gateway: no request, no load booked, every worker available; each request ended once; the
/// index holds of each worker as many blocks as the worker.
[[nodiscard]] Violation check_drained(const SimulatedGateway& gateway, const std::vector<SimulatedWorker>& workers);
/// Tokens in = tokens out: what the answers' usage sums up to, with what was lost by those that were aborted, is what
/// the engines counted. Of prompts it can only be said that the engines admitted those of all whole answers.
[[nodiscard]] Violation check_tokens(const Ledger& ledger, const std::vector<SimulatedWorker>& workers);

}  // namespace kvist::simulation
