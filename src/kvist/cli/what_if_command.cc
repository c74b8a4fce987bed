// kvist what-if: recorded traffic under other policies and fleets.
#include <fmt/format.h>
#include <cmath>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "kvist/base/output_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/planning/capacity.h"
#include "kvist/planning/what_if.h"
#include "kvist/spec/files.h"
#include "kvist/workload/recorded_traffic.h"

namespace kvist::cli {
namespace {

using planning::WhatIfCase;

constexpr std::uint32_t kMaxRuns = 1'000;

std::string fleet_text(std::size_t workers) {
  return fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
}

/// The fleet as it was, with other numbers of workers, and the fleets of other files.
Result<std::vector<WhatIfCase>> fleets_of(const WhatIfArguments& arguments, const WhatIfCase& as_it_was) {
  std::vector<WhatIfCase> fleets = {as_it_was};
  for (const std::uint32_t workers : arguments.workers) {
    spec::SweepSpec sweep;
    sweep.deployment = as_it_was.situation.deployment;
    WhatIfCase fleet{.fleet = fleet_text(workers), .situation = as_it_was.situation};
    fleet.situation.deployment = planning::with_workers(sweep, workers).deployment;
    fleets.push_back(std::move(fleet));
  }
  for (const std::string& file : arguments.deployments) {
    WhatIfCase fleet{.fleet = file, .situation = as_it_was.situation};
    KVIST_TRY(fleet.situation.deployment, spec::load_deployment_of_one_model(file));
    fleets.push_back(std::move(fleet));
  }
  return fleets;
}

/// Every mode on every fleet, but for what was recorded.
Result<std::vector<WhatIfCase>> cases_of(const WhatIfArguments& arguments, const WhatIfCase& as_it_was) {
  std::vector<spec::RoutingMode> modes = {as_it_was.situation.mode};
  for (const std::string& name : arguments.modes) {
    KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(name));
    if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
  }
  KVIST_TRY(const std::vector<WhatIfCase> fleets, fleets_of(arguments, as_it_was));
  std::vector<WhatIfCase> cases;
  for (const WhatIfCase& fleet : fleets) {
    for (const spec::RoutingMode mode : modes) {
      if (&fleet == &fleets.front() && mode == as_it_was.situation.mode) continue;
      cases.push_back(fleet);
      cases.back().situation.mode = mode;
    }
  }
  return cases;
}

Result<planning::WhatIfOptions> options_of(const WhatIfArguments& arguments) {
  if (!(arguments.warmup_pct >= 0 && arguments.warmup_pct <= 90)) {  // NaN is not within either
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--warmup: {} % of the record; expected 0 to 90", arguments.warmup_pct));
  }
  if (!(std::isfinite(arguments.max_error_pct) && arguments.max_error_pct > 0)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--max-error: {} %; expected above 0", arguments.max_error_pct));
  }
  const std::uint32_t most = planning::CapacityOptions().max_workers;  // as many as a file may have
  for (const std::uint32_t workers : arguments.workers) {
    if (workers >= 1 && workers <= most) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("--workers: {}; expected 1 to {}", workers, most));
  }
  if (arguments.seeds == 0 || arguments.seeds > kMaxRuns) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--seeds: {}; expected 1 to {}", arguments.seeds, kMaxRuns));
  }
  planning::WhatIfOptions options{.warmup_share = arguments.warmup_pct / 100,
                                  .seeds = arguments.seeds,
                                  .max_error_pct = arguments.max_error_pct,
                                  .threads = arguments.threads};
  // Standard output has the answer alone.
  options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return options;
}

/// What Dynamo's traces do not tell is said by --recorded-mode.
Result<void> set_mode(const WhatIfArguments& arguments, workload::RecordedTraffic& traffic) {
  if (traffic.prefilled_elsewhere > 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: {} of {} prompts were computed by other workers than gave the answers; simulated "
                            "workers do both",
                            arguments.record, traffic.prefilled_elsewhere, traffic.observed.size()));
  }
  if (arguments.recorded_mode.empty()) return {};
  if (traffic.tells_modes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--recorded-mode: {} says itself how each request was routed", arguments.record));
  }
  KVIST_TRY(const spec::RoutingMode mode, spec::parse_live_routing_mode(arguments.recorded_mode));
  for (workload::ObservedRequest& observed : traffic.observed) observed.mode = mode;
  return {};
}

}  // namespace

Result<void> run_what_if(const WhatIfArguments& arguments) {
  KVIST_TRY(const planning::WhatIfOptions options, options_of(arguments));
  KVIST_TRY_VOID(check_writable(arguments.json));
  KVIST_TRY(workload::RecordedTraffic traffic, workload::load_traffic(arguments.record));
  KVIST_TRY_VOID(set_mode(arguments, traffic));
  WhatIfCase as_it_was;
  KVIST_TRY(as_it_was.situation.deployment, spec::load_deployment_of_one_model(arguments.file));
  as_it_was.situation.mode = planning::recorded_mode(traffic);
  as_it_was.fleet = fleet_text(as_it_was.situation.deployment.workers.size());
  KVIST_TRY(const std::vector<WhatIfCase> cases, cases_of(arguments, as_it_was));
  KVIST_TRY(const planning::WhatIf answer, planning::what_if(traffic, as_it_was, cases, options));
  std::fputs(planning::what_if_text(answer, arguments.record).c_str(), stdout);
  if (!arguments.json.empty()) {
    KVIST_TRY_VOID(write_file(arguments.json, planning::what_if_json(answer, arguments.record)));
  }
  if (!answer.refusal) return {};
  return fail(ErrorCode::kUnsupported, "the simulation does not meet what was recorded; nothing is predicted");
}

}  // namespace kvist::cli
