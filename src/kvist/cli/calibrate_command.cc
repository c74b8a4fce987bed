// kvist loadgen calibrate, kvist loadgen reference: what this machine can drive, and the server that shows it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "kvist/base/output_file.h"
#include "kvist/cli/calibration_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/duration_argument.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/cli/termination.h"
#include "kvist/loadgen/reference_server.h"
#include "kvist/net/descriptor_limit.h"
#include "kvist/net/event_loop.h"
#include "kvist/render/figures.h"
#include "kvist/render/table.h"
#include "kvist/sweep/calibrate.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
namespace {

/// Descriptors that are not a stream's.
constexpr std::uint64_t kOtherDescriptors = 64;

std::string milliseconds(double ms) {
  return render::format_fixed(ms, ms < 100 ? 3 : 0);
}

std::string calibration_table(const loadgen::Calibration& calibration) {
  render::Table table;
  table.columns = {
      {"streams"},       {"events/s"}, {"turns/s"},    {"TTFT error p50"},       {"p99 (ms)"},
      {"ITL error p50"}, {"p99 (ms)"}, {"client CPU"}, {"server late p99 (ms)"}, {"", render::Align::kLeft}};
  for (const loadgen::CalibrationStep& step : calibration.steps) {
    const std::string failed =
        step.failed > 0 ? fmt::format("{} of {} turns failed", step.failed, step.turns + step.failed) : "";
    table.rows.push_back({render::format_count(step.streams),
                          render::format_count(static_cast<std::uint64_t>(step.events_per_s)),
                          render::format_fixed(step.turns_per_s, 1), milliseconds(step.ttft_error_p50_ms),
                          milliseconds(step.ttft_error_p99_ms), milliseconds(step.itl_error_p50_ms),
                          milliseconds(step.itl_error_p99_ms), render::format_fixed(step.cpu_share, 2),
                          milliseconds(step.server_late_p99_ms), calibration.holds(step) ? "" : "beyond " + failed});
  }
  return render::render_text_table(table);
}

std::string limit_text(const loadgen::Calibration& calibration) {
  const loadgen::CalibrationStep* const limit = calibration.limit();
  if (limit == nullptr) {
    return fmt::format("This machine drives no stream with errors below {:g} ms at p99: other work disturbs it.",
                       calibration.error_limit_ms);
  }
  const bool found = limit != &calibration.steps.back();
  return fmt::format("This machine drives {}{} streams, {} events/s, with errors below {:g} ms at p99{}.",
                     found ? "" : "at least ", render::format_count(limit->streams),
                     render::format_count(static_cast<std::uint64_t>(limit->events_per_s)), calibration.error_limit_ms,
                     found ? "" : ": more were not tried");
}

Result<sweep::CalibrateOptions> calibrate_options(const CalibrateArguments& arguments) {
  sweep::CalibrateOptions options;
  KVIST_TRY(options.first, parse_duration(arguments.first, "--first"));
  KVIST_TRY(options.gap, parse_duration(arguments.gap, "--gap"));
  KVIST_TRY(options.measure, parse_duration(arguments.measure, "--step"));
  if (options.measure <= Duration(0) || options.measure > std::chrono::minutes(10)) {
    return fail(ErrorCode::kInvalidArgument, "--step: expected above 0 and at most 10min");
  }
  const std::uint64_t descriptors = net::raise_descriptor_limit();
  const std::uint64_t room = descriptors > 2 * kOtherDescriptors ? descriptors - kOtherDescriptors : kOtherDescriptors;
  options.tokens = arguments.tokens;
  options.most_streams = static_cast<std::uint32_t>(std::min<std::uint64_t>(arguments.most_streams, room));
  if (Result<void> good = sweep::check_calibrate_options(options); !good) {
    return std::unexpected(std::move(good).error().in("--tokens"));
  }
  options.on_step = [](const loadgen::CalibrationStep& step) {
    std::fprintf(
        stderr, "%s\n",
        fmt::format("{} streams: {:.0f} events/s, error p99 of TTFT {:.3f} ms, of ITL {:.3f} ms, {} failed",
                    step.streams, step.events_per_s, step.ttft_error_p99_ms, step.itl_error_p99_ms, step.failed)
            .c_str());
  };
  return options;
}

}  // namespace

Result<void> run_calibrate(const CalibrateArguments& arguments) {
  std::string path = arguments.output;
  if (path.empty()) {
    KVIST_TRY(path, usual_calibration_path());
    KVIST_TRY_VOID(make_folder(std::filesystem::path(path).parent_path().string()));
  }
  KVIST_TRY(sweep::CalibrateOptions options, calibrate_options(arguments));
  telemetry::start_logging(telemetry::LogLevel::kWarning, "loadgen");
  const Termination termination;
  options.stop = termination.token();
  KVIST_TRY(const loadgen::Calibration calibration, sweep::calibrate(options));
  print_line(calibration_table(calibration) + limit_text(calibration));
  KVIST_TRY(const std::string written, write_file(path, loadgen::calibration_json(calibration)));
  print_line("written  " + written);
  if (calibration.limit() != nullptr) return {};
  return fail(ErrorCode::kUnavailable, "no number of streams held");
}

Result<void> serve_reference(const ReferenceArguments& arguments) {
  loadgen::ReferenceServerOptions options;
  options.http = {arguments.host, arguments.port};
  KVIST_TRY(options.first, parse_duration(arguments.first, "--first"));
  KVIST_TRY(options.gap, parse_duration(arguments.gap, "--gap"));
  KVIST_TRY(options.jitter, parse_duration(arguments.jitter, "--jitter"));
  net::raise_descriptor_limit();
  telemetry::start_logging(telemetry::LogLevel::kWarning, "reference");
  net::EventLoop loop;
  KVIST_TRY(const auto server, loadgen::ReferenceServer::create(loop, options));
  loop.on_termination([&loop] { loop.stop(); });
  print_line(fmt::format("ready http={}", server->port()));
  loop.run();
  return {};
}

}  // namespace kvist::cli
