// kvist fit: fits a profile's coefficients to measurements.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "kvist/base/output_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/planning/fit.h"
#include "kvist/planning/measurements.h"
#include "kvist/planning/profile_fit.h"
#include "kvist/report/report.h"
#include "kvist/spec/files.h"

namespace kvist::cli {
namespace {

constexpr std::uint32_t kMaxSeeds = 1'000;

Result<planning::Measurements> measurements_in_run(const FitArguments& arguments,
                                                   const std::optional<spec::SweepSpec>& sweep) {
  KVIST_TRY(const auto store, open_existing(arguments.database));
  KVIST_TRY(const std::int64_t number, chosen_run(*store, arguments.database, arguments.run));
  KVIST_TRY(const analysis::StoredRun run, analysis::open_run(*store, number, false));
  KVIST_TRY(const analysis::RunAnalysis analysis, analysis::analyse_run(run));
  return planning::run_figures(
      analysis, fmt::format("{} run {}", std::filesystem::path(arguments.database).filename().string(), number), sweep);
}

Result<planning::Measurements> load_measurements(const FitArguments& arguments) {
  if (arguments.reference.empty() == arguments.database.empty()) {
    return fail(ErrorCode::kInvalidArgument, "fit to one of --reference FILE and --database FILE");
  }
  if (arguments.run && arguments.database.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--run is of a --database; --reference is one file of figures");
  }
  std::optional<spec::SweepSpec> sweep;
  if (!arguments.sweep.empty()) {
    KVIST_TRY(sweep, spec::load_sweep(arguments.sweep));
  }
  if (!arguments.database.empty()) return measurements_in_run(arguments, sweep);
  if (!sweep) {
    return fail(ErrorCode::kInvalidArgument, "--reference says what was measured, not on what: --sweep FILE does");
  }
  return planning::load_reference_figures(arguments.reference, *sweep);
}

}  // namespace

Result<void> run_fit(const FitArguments& arguments) {
  if (arguments.seeds == 0 || arguments.seeds > kMaxSeeds) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("--seeds: {}; expected 1 to {}", arguments.seeds, kMaxSeeds));
  }
  for (const std::string& file : {arguments.out, arguments.json}) KVIST_TRY_VOID(check_writable(file));
  KVIST_TRY(planning::Measurements measured, load_measurements(arguments));
  if (!arguments.profile.empty()) {
    KVIST_TRY(measured.sweep, planning::with_engine(std::move(measured.sweep), arguments.profile));
  }
  KVIST_TRY(planning::FitSplit split, planning::split_levels(measured, arguments.fit_levels, arguments.hold_out));
  KVIST_TRY(const planning::FitProblem problem,
            planning::profile_problem(measured.sweep, arguments.free, std::move(split)));
  planning::FitOptions options;
  options.seeds = arguments.seeds;
  options.threads = arguments.threads;
  options.search.progress = [](std::uint32_t round, double objective) {
    std::fprintf(stderr, "round %u: %.4g\n", round, objective);
  };
  KVIST_TRY(const planning::FitResult result, planning::fit(planning::SimulatedEvaluator(), problem, options));
  KVIST_TRY(const auto coefficients, planning::fitted_coefficients(problem, result, measured.source));
  print_line(planning::fit_text(problem, result, measured.source));
  if (!arguments.json.empty()) {
    KVIST_TRY_VOID(write_file(arguments.json, planning::fit_json(problem, result, measured.source)));
  }
  KVIST_TRY_VOID(write_file(arguments.out, coefficients.to_yaml()));
  print_line(fmt::format("profile   {}", arguments.out));
  return {};
}

}  // namespace kvist::cli
