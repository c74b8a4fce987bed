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
  std::string output_directory;  ///< parent of the results' folder; empty: the specification's
  unsigned threads = 0;          ///< levels at once; 0: one per core
  Progress progress;
  std::stop_token stop;     ///< ends the sweep cleanly; finished levels are kept and reported
  std::string resume = {};  ///< folder of an interrupted sweep to be continued; empty: a new sweep
};

/// The amount and cost of a simulation.
struct SimulationSpeed {
  double simulated_s = 0;  ///< virtual time of all levels, drain included
  std::uint64_t output_tokens = 0;
  std::uint64_t steps = 0;   ///< engine steps
  std::uint64_t events = 0;  ///< of the event queue
  double wall_s = 0;         ///< simulating and storing
  /// Processor time of all threads for both: the time on one core, apart from second threads' waiting.
  double cpu_s = 0;
  std::uint64_t ahead = 0;  ///< steps and prompts that were given to second threads

  /// Virtual seconds and tokens per second of processor time; 0 if nothing was simulated.
  [[nodiscard]] double seconds_per_core() const { return cpu_s > 0 ? simulated_s / cpu_s : 0; }
  [[nodiscard]] double tokens_per_core() const { return cpu_s > 0 ? static_cast<double>(output_tokens) / cpu_s : 0; }
};

struct SimulatedSweepOutcome {
  SweepOutcome sweep;
  SimulationSpeed speed;
};

/// Simulates the plan that a live sweep of the same specification would run. Levels run in parallel, each on a
/// deployment of its own with cold caches. Except for its provenance, the database does not depend on the number of
/// threads. Blocks until everything is done. Errors: only if nothing could be started (a specification that cannot be
/// simulated, a folder that cannot be created); later failures are in the outcome's `failure`.
[[nodiscard]] Result<SimulatedSweepOutcome> simulate_sweep(const spec::SweepSpec& sweep,
                                                           const SimulatedSweepOptions& options);

}  // namespace kvist::sweep
