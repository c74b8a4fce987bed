#include "kvist/loadgen/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"

namespace kvist::loadgen {
namespace {

constexpr std::uint32_t kFirstStreams = 25;
constexpr double kCloseEnough = 1.25;
constexpr double kMost = 1e12;

constexpr std::pair<std::string_view, double CalibrationStep::*> kFigures[] = {
    {"events_per_s", &CalibrationStep::events_per_s},
    {"turns_per_s", &CalibrationStep::turns_per_s},
    {"ttft_error_p50_ms", &CalibrationStep::ttft_error_p50_ms},
    {"ttft_error_p99_ms", &CalibrationStep::ttft_error_p99_ms},
    {"itl_error_p50_ms", &CalibrationStep::itl_error_p50_ms},
    {"itl_error_p99_ms", &CalibrationStep::itl_error_p99_ms},
    {"server_late_p99_ms", &CalibrationStep::server_late_p99_ms},
    {"cpu_share", &CalibrationStep::cpu_share}};

double worst_error(const CalibrationStep& step) {
  return std::max(step.ttft_error_p99_ms, step.itl_error_p99_ms);
}

Result<CalibrationStep> parse_step(const JsonObject& object) {
  CalibrationStep step;
  KVIST_TRY(const std::uint64_t streams, object.require_unsigned("streams", 1, 1'000'000));
  step.streams = static_cast<std::uint32_t>(streams);
  for (const auto& [name, figure] : kFigures) {
    KVIST_TRY(step.*figure, object.require_double(name, 0, kMost));
  }
  KVIST_TRY(step.turns, object.require_unsigned("turns", 0, std::uint64_t{1} << 53));
  KVIST_TRY(step.failed, object.require_unsigned("failed", 0, std::uint64_t{1} << 53));
  return step;
}

void write_step(JsonWriter& json, const Calibration& calibration, const CalibrationStep& step) {
  json.begin_object().field("streams", step.streams);
  for (const auto& [name, figure] : kFigures) json.field(name, std::round(step.*figure * 1e6) / 1e6);
  json.field("turns", step.turns).field("failed", step.failed).field("holds", calibration.holds(step)).end_object();
}

}  // namespace

const CalibrationStep* Calibration::limit() const {
  const CalibrationStep* best = nullptr;
  for (const CalibrationStep& step : steps) {
    if (!holds(step)) break;
    best = &step;
  }
  return best;
}

void Calibration::add(const CalibrationStep& step) {
  const auto at = std::ranges::lower_bound(steps, step.streams, {}, &CalibrationStep::streams);
  if (at == steps.end() || at->streams != step.streams) {
    steps.insert(at, step);
  } else if (step.failed < at->failed || (step.failed == at->failed && worst_error(step) < worst_error(*at))) {
    *at = step;
  }
}

std::optional<std::uint32_t> next_streams(const Calibration& calibration, std::uint32_t most) {
  if (calibration.steps.empty()) return std::min(kFirstStreams, most);
  const CalibrationStep* const good = calibration.limit();
  if (good == nullptr) {
    const std::uint32_t fewest = calibration.steps.front().streams;
    return fewest > 1 ? std::optional(std::max(1U, fewest / 5)) : std::nullopt;
  }
  const bool is_last = good == &calibration.steps.back();
  if (is_last) return good->streams >= most ? std::nullopt : std::optional(std::min(most, good->streams * 2));
  const double bad = (good + 1)->streams;
  if (bad <= good->streams * kCloseEnough) return std::nullopt;
  const auto between = static_cast<std::uint32_t>(std::lround(std::sqrt(good->streams * bad)));
  return between > good->streams && between < (good + 1)->streams ? std::optional(between) : std::nullopt;
}

std::string calibration_json(const Calibration& calibration) {
  JsonWriter json(2);
  json.begin_object().field("format", 1).field("kvist_version", calibration.kvist_version);
  json.field("measured", calibration.measured_utc).key("machine").begin_object();
  for (const auto& [key, value] : calibration.machine) json.field(key, value);
  json.end_object().field("first_ms", calibration.first_ms).field("gap_ms", calibration.gap_ms);
  json.field("tokens", calibration.tokens).field("error_limit_ms", calibration.error_limit_ms);
  json.key("steps").begin_array();
  for (const CalibrationStep& step : calibration.steps) write_step(json, calibration, step);
  json.end_array().key("limit");
  if (const CalibrationStep* const limit = calibration.limit()) {
    json.begin_object().field("streams", limit->streams).field("events_per_s", std::round(limit->events_per_s));
    json.field("turns_per_s", std::round(limit->turns_per_s)).end_object();
  } else {
    json.null();
  }
  json.end_object();
  return json.take() + "\n";
}

Result<Calibration> parse_calibration(std::string_view text, const std::string& name) {
  JsonDocument document({.name = name, .most_bytes = std::size_t{1} << 20});
  KVIST_TRY(const JsonObject root, document.parse_object(text));
  KVIST_TRY(const std::uint64_t format, root.require_unsigned("format", 0, 1'000));
  if (format != 1) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: format {} of another kvist; run kvist loadgen calibrate again", name, format));
  }
  Calibration calibration;
  KVIST_TRY(const std::string_view version, root.require_string("kvist_version"));
  KVIST_TRY(const std::string_view measured, root.require_string("measured"));
  calibration.kvist_version = version;
  calibration.measured_utc = measured;
  KVIST_TRY(const JsonObject machine, root.require_object("machine"));
  for (const auto [key, value] : machine) {
    KVIST_TRY(const std::string_view text_of, value.as_string());
    calibration.machine.emplace(key, text_of);
  }
  KVIST_TRY(calibration.first_ms, root.require_double("first_ms", 0, kMost));
  KVIST_TRY(calibration.gap_ms, root.require_double("gap_ms", 0, kMost));
  KVIST_TRY(const std::uint64_t tokens, root.require_unsigned("tokens", 1, 1'000'000));
  calibration.tokens = static_cast<std::uint32_t>(tokens);
  KVIST_TRY(calibration.error_limit_ms, root.require_double("error_limit_ms", 0, kMost));
  KVIST_TRY(const JsonArray steps, root.require_array("steps"));
  for (const JsonValue value : steps) {
    KVIST_TRY(const JsonObject object, value.as_object());
    KVIST_TRY(const CalibrationStep step, parse_step(object));
    calibration.add(step);
  }
  return calibration;
}

std::optional<std::string> beyond_limit(const Calibration& calibration, const DrivenLoad& load) {
  const CalibrationStep* const limit = calibration.limit();
  std::string text;
  const auto compare = [&](const char* what, const std::optional<double>& value, double most) {
    if (!value || *value <= most) return;
    text += fmt::format("{}{:.0f} {} ({:.0f})", text.empty() ? "" : ", ", *value, what, most);
  };
  compare("streams at once", load.streams, limit == nullptr ? 0 : limit->streams);
  compare("turns/s", load.turns_per_s, limit == nullptr ? 0 : limit->turns_per_s);
  compare("events/s", load.events_per_s, limit == nullptr ? 0 : limit->events_per_s);
  if (text.empty()) return std::nullopt;
  return fmt::format(
      "beyond what this machine was calibrated for with an error below {:g} ms, which is in parentheses: {}",
      calibration.error_limit_ms, text);
}

bool same_machine(const Calibration& calibration, const std::map<std::string, std::string>& machine) {
  const auto equal = [&](const std::string& key) {
    const auto here = machine.find(key);
    const auto there = calibration.machine.find(key);
    return (here == machine.end()) == (there == calibration.machine.end()) &&
           (here == machine.end() || here->second == there->second);
  };
  return equal("processor") && equal("cores");
}

}  // namespace kvist::loadgen
