// A whole sweep in virtual time: levels, results, report.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "kvist/base/error.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/level_runner.h"
#include "kvist/sweep/sweep_outcome.h"

namespace kvist::sweep {

struct SimulatedSweepOptions {
  std::string output_directory;  ///< the results' folder goes into it; empty: the specification's
  unsigned threads = 0;          ///< levels at once; 0: one per core
  Progress progress;
  std::stop_token stop;  ///< ends the sweep cleanly; finished levels are kept and reported
};

/// How much was simulated, and what it cost.
struct SimulationSpeed {
  double simulated_s = 0;  ///< virtual time of all levels, drain included
  std::uint64_t output_tokens = 0;
  std::uint64_t steps = 0;   ///< engine steps
  std::uint64_t events = 0;  ///< of the event queue
  double wall_s = 0;         ///< simulating and storing
  double cpu_s = 0;          ///< processor time for both, of all threads: what one core to itself would have needed

  /// Virtual seconds and tokens per second of one core; 0 where nothing was simulated.
  [[nodiscard]] double seconds_per_core() const { return cpu_s > 0 ? simulated_s / cpu_s : 0; }
  [[nodiscard]] double tokens_per_core() const { return cpu_s > 0 ? static_cast<double>(output_tokens) / cpu_s : 0; }
};

struct SimulatedSweepOutcome {
  SweepOutcome sweep;
  SimulationSpeed speed;
};

/// Simulates the plan that a live sweep of the same specification would run, level beside level, each on a deployment
/// of its own with cold caches. The database is the same whatever the number of threads, but for its provenance. Blocks
/// until all is done. An error only where nothing could be begun (a specification that cannot be simulated, a folder
/// that cannot be made); what happens later is in the outcome's `failure`.
[[nodiscard]] Result<SimulatedSweepOutcome> simulate_sweep(const spec::SweepSpec& sweep,
                                                           const SimulatedSweepOptions& options);

}  // namespace kvist::sweep
