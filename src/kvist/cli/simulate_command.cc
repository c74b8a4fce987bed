// kvist simulate: a sweep in virtual time.
#include <fmt/format.h>

#include <algorithm>

#include "kvist/cli/commands.h"
#include "kvist/cli/outcome.h"
#include "kvist/cli/print.h"
#include "kvist/cli/termination.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/run_progress.h"
#include "kvist/sweep/simulated_sweep.h"

namespace kvist::cli {
namespace {

/// Replaces the file's levels, modes and repetitions by the given ones.
Result<void> select(spec::SweepSpec& sweep, const SimulateArguments& arguments) {
  if (arguments.repetitions) sweep.method.repetitions = *arguments.repetitions;
  if (!arguments.levels.empty()) {
    sweep.levels = arguments.levels;
    std::ranges::sort(sweep.levels);
    sweep.levels.erase(std::ranges::unique(sweep.levels).begin(), sweep.levels.end());
    const std::uint32_t most = sweep.deployment.gateway.max_in_flight;
    const bool is_open = sweep.workload.arrivals.is_open();
    if (sweep.levels.front() == 0 || (!is_open && sweep.levels.back() > most)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--level must be from 1 to {}, the gateway's max_in_flight", most));
    }
  }
  if (arguments.modes.empty()) return {};
  if (!sweep.arms.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--mode: the file compares arms, not modes; leave it out");
  }
  sweep.modes.clear();
  for (const std::string& name : arguments.modes) {
    KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(name));
    if (std::ranges::find(sweep.modes, mode) == sweep.modes.end()) sweep.modes.push_back(mode);
  }
  return {};
}

void print_speed(const sweep::SimulationSpeed& speed) {
  constexpr double kMillion = 1e6;
  const int decimals = speed.seconds_per_core() < 10 ? 1 : 0;  // thousands of workers run at a few times real time
  print_line(
      fmt::format("speed     {:.0f} s and {:.2f} million tokens in {:.2f} s; a core simulates {:.{}f} s and {:.2f} "
                  "million tokens a second",
                  speed.simulated_s, static_cast<double>(speed.output_tokens) / kMillion, speed.wall_s,
                  speed.seconds_per_core(), decimals, speed.tokens_per_core() / kMillion));
}

}  // namespace

Result<void> run_simulate(const SimulateArguments& arguments) {
  KVIST_TRY(spec::SweepSpec sweep,
            arguments.resume.empty() ? spec::load_sweep(arguments.file) : sweep::interrupted_sweep(arguments.resume));
  if (arguments.resume.empty()) KVIST_TRY_VOID(select(sweep, arguments));
  const Termination termination;
  sweep::SimulatedSweepOptions options;
  options.output_directory = arguments.output;
  options.threads = arguments.threads;
  options.resume = arguments.resume;
  options.progress = print_line;
  options.stop = termination.token();
  KVIST_TRY(const sweep::SimulatedSweepOutcome outcome, sweep::simulate_sweep(sweep, options));
  print_outcome(outcome.sweep);
  if (outcome.sweep.levels_done > 0) print_speed(outcome.speed);
  return result_of(outcome.sweep);
}

}  // namespace kvist::cli
