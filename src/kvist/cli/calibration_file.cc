#include "kvist/cli/calibration_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <utility>

#include "kvist/base/input_file.h"
#include "kvist/sweep/machine.h"
#include "kvist/telemetry/log.h"
#include "kvist/workload/arrival_profile.h"
#include "kvist/workload/mix.h"

namespace kvist::cli {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr std::uintmax_t kMostBytes = 1U << 20;

Result<std::string> read_text(const std::string& path) {
  auto text = read_file(path, kMostBytes);
  if (!text && text.error().code != ErrorCode::kTooLarge) {
    return fail(ErrorCode::kNotFound,
                fmt::format("{}: cannot be read; kvist loadgen calibrate --output {} writes it", path, path));
  }
  return text;
}

Result<loadgen::Calibration> read_calibration(const std::string& path) {
  KVIST_TRY(const std::string text, read_text(path));
  return loadgen::parse_calibration(text, path);
}

}  // namespace

Result<std::string> usual_calibration_path() {
  const auto variable = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
    return value == nullptr ? "" : value;
  };
  std::filesystem::path folder = variable("XDG_STATE_HOME");
  if (!folder.is_absolute()) {
    const std::filesystem::path home = variable("HOME");
    if (!home.is_absolute()) {
      return fail(ErrorCode::kInvalidArgument, "neither XDG_STATE_HOME nor HOME is set: name a file with --output");
    }
    folder = home / ".local" / "state";
  }
  return (folder / "kvist" / "loadgen-calibration.json").string();
}

Result<std::optional<loadgen::Calibration>> find_calibration(const std::string& wanted) {
  std::optional<loadgen::Calibration> found;
  if (wanted == "none") return found;
  std::string path = wanted;
  if (path.empty()) {
    const Result<std::string> usual = usual_calibration_path();
    if (!usual || !std::filesystem::is_regular_file(*usual)) return found;
    path = *usual;
  }
  Result<loadgen::Calibration> read = read_calibration(path);
  if (!read && wanted.empty()) {
    // Nobody asked for it: a load is not worse for a file that is broken, or of a later kvist.
    telemetry::log_warning("loadgen", read.error().message + "; the load is not held against it");
    return found;
  }
  KVIST_TRY(loadgen::Calibration calibration, std::move(read));
  if (!loadgen::same_machine(calibration, sweep::describe_machine())) {
    // A home that several machines share is no mistake.
    if (wanted.empty()) return found;
    return fail(
        ErrorCode::kInvalidArgument,
        path + ": was measured on another machine (processor or cores differ); run kvist loadgen calibrate here");
  }
  found = std::move(calibration);
  return found;
}

loadgen::DrivenLoad planned_load(const LoadOrder& order) {
  loadgen::DrivenLoad load;
  const spec::WorkloadSpec& workload = order.workload;
  if (!order.level) return load;
  const bool replays = !workload.trace.file.empty();
  if (replays ? workload.trace.loop == spec::TraceLoop::kClosed : !workload.arrivals.is_open()) {
    load.streams = *order.level;
  } else if (!replays) {
    // Turns follow each other within a conversation, so that in the long run there are as many times more.
    const workload::ArrivalProfile profile(workload.arrivals.profile);
    const double starts = workload.arrivals.starts_per_second(*order.level) *
                          profile.peak_until(order.duration ? to_seconds(*order.duration) : kForever);
    const workload::ConversationMeans means =
        order.input.mix ? workload::mean_conversation(*order.input.mix)
                        : workload::mean_conversation({{.spec = workload, .scripts = order.input.scripts}});
    load.turns_per_s = starts * means.turns;
    if (means.answer_tokens) load.events_per_s = starts * *means.answer_tokens;
  }
  return load;
}

std::optional<std::string> beyond_calibration(const std::optional<loadgen::Calibration>& calibration,
                                              const loadgen::DrivenLoad& load) {
  return calibration ? loadgen::beyond_limit(*calibration, load) : std::nullopt;
}

Result<void> check_calibration(const std::optional<loadgen::Calibration>& calibration, const loadgen::DrivenLoad& load,
                               bool must_be_within) {
  if (!must_be_within) return {};
  if (!calibration) {
    return fail(ErrorCode::kInvalidArgument,
                "--within-calibration: there is none for this machine; run kvist loadgen calibrate first");
  }
  if (const auto beyond = beyond_calibration(calibration, load)) {
    return fail(ErrorCode::kInvalidArgument, "--within-calibration: the load is " + *beyond);
  }
  return {};
}

}  // namespace kvist::cli
