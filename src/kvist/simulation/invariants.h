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

  void on_turn_started(TimePoint now) override;
  void on_turn_ended(const workload::TurnSample& sample, TimePoint now) override;

  /// Whether the books balance, all turns having ended.
  [[nodiscard]] Violation check() const;

  [[nodiscard]] std::uint64_t started() const { return started_; }
  [[nodiscard]] std::uint64_t succeeded() const { return succeeded_; }
  /// Of turns that succeeded, by the usage the client received.
  [[nodiscard]] std::uint64_t prompt_tokens() const { return prompt_tokens_; }
  [[nodiscard]] std::uint64_t cached_tokens() const { return cached_tokens_; }
  [[nodiscard]] std::uint64_t completion_tokens() const { return completion_tokens_; }
  /// Turns the client gave up or broke off: what the engines did for them has no usage.
  [[nodiscard]] bool all_succeeded() const { return succeeded_ == started_; }

 private:
  void integrate(TimePoint now);
  [[nodiscard]] Duration within_window(TimePoint begin, TimePoint end) const;

  TimePoint from_;
  TimePoint to_;
  std::uint32_t limit_;
  TimePoint last_;
  std::uint64_t started_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t succeeded_ = 0;
  std::uint64_t peak_ = 0;
  std::int64_t integral_ns_ = 0;  // of turns in flight over the window
  std::int64_t sojourn_ns_ = 0;   // of all turns within the window
  bool times_in_order_ = true;
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t completion_tokens_ = 0;
};

/// Nothing is left in the engine: no request, no step, every block free again, every request that came ended.
[[nodiscard]] Violation check_drained(const SimulatedWorker& worker);
/// Nothing is left in the gateway: no request, no load booked, every worker available; each request ended once; the
/// index holds of each worker as many blocks as the worker.
[[nodiscard]] Violation check_drained(const SimulatedGateway& gateway, const std::vector<SimulatedWorker>& workers);
/// Tokens in = tokens out: what the clients' usage sums up to is what the engines counted, exactly where every turn
/// succeeded, else as a bound.
[[nodiscard]] Violation check_tokens(const Ledger& ledger, const std::vector<SimulatedWorker>& workers);

}  // namespace kvist::simulation
