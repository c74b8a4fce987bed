// kvist plan: capacity within an SLO, memory of a worker's GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "kvist/base/output_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/deployer_factory.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/cli/termination.h"
#include "kvist/planning/capacity.h"
#include "kvist/planning/capacity_report.h"
#include "kvist/planning/knobs.h"
#include "kvist/planning/live_evaluator.h"
#include "kvist/planning/memory_report.h"
#include "kvist/planning/trace_limit.h"
#include "kvist/render/figures.h"
#include "kvist/results/load_input.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/live_levels.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
namespace {

/// Student's t needs at least the lower number; more than the upper one are not worth the time.
constexpr std::uint32_t kMinSeeds = 3;
constexpr std::uint32_t kMaxSeeds = 1'000;

Result<std::vector<spec::RoutingMode>> chosen_modes(const spec::SweepSpec& sweep,
                                                    const std::vector<std::string>& names) {
  if (names.empty()) return sweep.modes;
  std::vector<spec::RoutingMode> modes;
  for (const std::string& name : names) {
    KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(name));
    if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
  }
  return modes;
}

/// The numbers of seeds for tests: three, then more, up to `most`.
Result<std::vector<std::uint32_t>> looks_up_to(std::uint32_t most) {
  if (most < kMinSeeds || most > kMaxSeeds) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--seeds: {} per level; expected {} to {}", most, kMinSeeds, kMaxSeeds));
  }
  std::vector<std::uint32_t> looks;
  for (std::uint32_t seeds = kMinSeeds; seeds < most; seeds += (seeds + 1) / 2) looks.push_back(seeds);
  looks.push_back(most);
  return looks;
}

Result<planning::CapacityOptions> capacity_options(const PlanCapacityArguments& arguments) {
  planning::CapacityOptions options;
  if (!(arguments.confidence >= 50 && arguments.confidence < 100)) {  // NaN is not within either
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--confidence: {} %; expected at least 50 and below 100", arguments.confidence));
  }
  if (arguments.max_users && *arguments.max_users == 0) {
    return fail(ErrorCode::kInvalidArgument, "--max-users: 0; expected at least 1");
  }
  KVIST_TRY(options.judge.looks, looks_up_to(arguments.seeds));
  options.judge.confidence = arguments.confidence / 100;
  options.judge.threads = arguments.threads;
  options.max_users = arguments.max_users.value_or(0);
  // Standard output is for the plan alone.
  options.progress = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return options;
}

const planning::Capacity& largest(const std::vector<planning::Capacity>& capacities) {
  return *std::ranges::max_element(capacities, {}, &planning::Capacity::users);
}

/// Each level costs its time: fewer of them than a simulation, no two at once.
void spare_levels(planning::CapacityOptions& options) {
  options.judge.threads = 1;
  options.resolution = 0.05;
  options.probes_below = 1;
  options.probes_above = 0;
}

/// The arms with these names; all without any.
Result<std::vector<spec::Arm>> chosen_arms(const spec::SweepSpec& sweep, const std::vector<std::string>& names) {
  std::vector<spec::Arm> arms;
  for (const spec::ArmSpec& arm : spec::arms_of(sweep)) {
    if (names.empty() || std::ranges::find(names, arm.arm.name()) != names.end()) arms.push_back(arm.arm);
  }
  if (!arms.empty()) return arms;
  return fail(ErrorCode::kInvalidArgument, "--mode: the file has no such mode or arm");
}

Result<void> search_live(const PlanCapacityArguments& arguments, const planning::Slo& slo,
                         planning::CapacityPlan& plan) {
  KVIST_TRY(planning::CapacityOptions options, capacity_options(arguments));
  spare_levels(options);
  plan.slo = planning::with_error_limit(slo, plan.sweep.method.max_error_pct);
  plan.confidence = options.judge.confidence;
  plan.is_measured = true;
  KVIST_TRY(const std::vector<spec::Arm> arms, chosen_arms(plan.sweep, arguments.modes));
  telemetry::start_logging(telemetry::LogLevel::kWarning, "plan");
  const Termination termination;
  KVIST_TRY(sweep::DeployerFactory make_deployer, deployer_factory(plan.sweep));
  sweep::LiveLevels live(plan.sweep, {.make_deployer = std::move(make_deployer),
                                      .progress = [&](std::string_view line) { options.progress(std::string(line)); },
                                      .stop = termination.token()});
  KVIST_TRY_VOID(live.prepare());
  const std::filesystem::path logs = arguments.logs.empty() ? "out/plan-logs" : arguments.logs;
  for (const spec::Arm& arm : arms) {
    KVIST_TRY_VOID(live.begin(arm, (logs / arm.name()).string()));
    const planning::LiveEvaluator evaluator(live, arm);
    KVIST_TRY(planning::Capacity capacity,
              planning::find_capacity(evaluator, plan.sweep, spec::RoutingMode::kRoundRobin, plan.slo, options));
    capacity.mode = arm;
    plan.capacities.push_back(std::move(capacity));
    live.end();
  }
  live.stop();
  return {};
}

/// Levels at which an open trace ends within the measuring window would be measured with a load that has stopped.
Result<void> stay_within_trace(const PlanCapacityArguments& arguments, const workload::LoadInput& input,
                               planning::CapacityPlan& plan, planning::CapacityOptions& options) {
  const std::optional<planning::TraceLimit> limit = planning::trace_limit(plan.sweep, input);
  if (!limit) return {};
  const std::uint32_t asked = arguments.users.value_or(1);
  if (asked > limit->level) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}{} lasts {} at its recorded rate and `speed`; at {} percent of that it ends before a level's "
                    "warm-up and window of {} do; expected {}a longer trace or shorter windows",
                    arguments.users ? "--users: " : "", plan.sweep.workload.trace.file,
                    render::format_duration(limit->lasts), asked, render::format_duration(limit->needs),
                    limit->level == 0 ? std::string() : fmt::format("at most {}, ", limit->level)));
  }
  const std::uint32_t wanted = options.max_users == 0 ? plan.sweep.deployment.gateway.max_in_flight : options.max_users;
  if (wanted <= limit->level) return {};
  options.max_users = limit->level;
  plan.trace_ends_above = limit->level;
  return {};
}

Result<planning::CapacityPlan> make_plan(const PlanCapacityArguments& arguments) {
  planning::CapacityPlan plan;
  KVIST_TRY(plan.sweep, spec::load_sweep(arguments.file));
  KVIST_TRY(const planning::Slo slo, planning::parse_slo(arguments.slo));
  KVIST_TRY_VOID(planning::check_measurable(slo, plan.sweep));
  if (arguments.live) {
    KVIST_TRY_VOID(search_live(arguments, slo, plan));
    return plan;
  }
  if (plan.sweep.target.is_given()) {
    return fail(ErrorCode::kUnsupported, "a running target cannot be simulated: say --live");
  }
  KVIST_TRY(const std::vector<spec::RoutingMode> modes, chosen_modes(plan.sweep, arguments.modes));
  KVIST_TRY(planning::CapacityOptions options, capacity_options(arguments));
  plan.slo = planning::with_error_limit(slo, plan.sweep.method.max_error_pct);
  plan.confidence = options.judge.confidence;
  plan.same_requests = options.judge.same_requests = !plan.sweep.workload.trace.file.empty();
  KVIST_TRY(workload::LoadInput input, results::load_input(plan.sweep.workload.trace));
  KVIST_TRY_VOID(stay_within_trace(arguments, input, plan, options));
  using workload::TurnClock;
  const planning::SimulatedEvaluator evaluator(
      std::move(input), planning::needs_gaps(slo) ? TurnClock::Gaps::kKeep : TurnClock::Gaps::kDrop);
  if (arguments.users) {
    for (const spec::RoutingMode mode : modes) {
      KVIST_TRY(planning::WorkersNeeded needed,
                planning::find_workers(evaluator, plan.sweep, mode, *arguments.users, plan.slo, options));
      plan.needed.push_back(std::move(needed));
    }
  }
  KVIST_TRY(plan.capacities, planning::find_capacities(evaluator, plan.sweep, modes, plan.slo, options));
  if (arguments.knobs) {
    KVIST_TRY(planning::KnobTable knobs, planning::measure_knobs(evaluator, planning::profiles_resolve, plan.sweep,
                                                                 largest(plan.capacities), plan.slo, options));
    plan.knobs.push_back(std::move(knobs));
  }
  return plan;
}

}  // namespace

Result<void> plan_capacity(const PlanCapacityArguments& arguments) {
  for (const std::string& file : {arguments.json, arguments.html, arguments.markdown}) {
    KVIST_TRY_VOID(check_writable(file));
  }
  KVIST_TRY(const planning::CapacityPlan plan, make_plan(arguments));
  print_line(planning::plan_text(plan));
  if (!arguments.json.empty()) KVIST_TRY_VOID(write_file(arguments.json, planning::plan_json(plan)));
  if (!arguments.html.empty()) KVIST_TRY_VOID(write_file(arguments.html, planning::plan_html(plan)));
  if (!arguments.markdown.empty()) KVIST_TRY_VOID(write_file(arguments.markdown, planning::plan_markdown(plan)));
  const std::string gaps = planning::gaps_of(plan);
  if (!gaps.empty()) return fail(ErrorCode::kUnavailable, gaps);
  return {};
}

Result<void> plan_memory(const PlanMemoryArguments& arguments) {
  KVIST_TRY(const spec::DeploymentSpec deployment, spec::load_deployment_of_one_model(arguments.file));
  // Equal workers have the same budget, which is printed once.
  std::vector<spec::WorkerSpec> told;
  for (const spec::WorkerSpec& worker : deployment.workers) {
    spec::WorkerSpec nameless = worker;
    nameless.name.clear();
    if (std::ranges::find(told, nameless) != told.end()) continue;
    told.push_back(std::move(nameless));
    KVIST_TRY(const planning::MemoryReport report, planning::make_memory_report(worker));
    print_line(arguments.json ? planning::render_json(report) : planning::render_table(report));
  }
  return {};
}

}  // namespace kvist::cli
