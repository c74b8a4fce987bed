#include "kvist/planning/slo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "kvist/base/yaml.h"
#include "kvist/render/figures.h"

namespace kvist::planning {
namespace {

/// No SLO has more parts; a longer text is no SLO.
constexpr std::size_t kMaxSloBytes = 1'024;

struct Name {
  std::string_view name;
  Metric metric;
};
constexpr std::array<Name, 7> kNames = {{
    {"ttft_p50", Metric::kTtftP50},
    {"ttft_p95", Metric::kTtftP95},
    {"tpot_p50", Metric::kTpotP50},
    {"tpot_p95", Metric::kTpotP95},
    {"latency_p50", Metric::kLatencyP50},
    {"latency_p95", Metric::kLatencyP95},
    {"error", Metric::kErrorPct},
}};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::unexpected<Error> wrong(std::string_view part, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("--slo: \"{}\": {}", part, what));
}

Result<double> read_milliseconds(std::string_view part, std::string_view value) {
  constexpr std::string_view kExpected = "expected a duration above 0 with its unit, such as 600ms or 1.5s";
  const auto node = YamlNode::parse(value, "--slo");
  const auto duration = node ? node->as_duration() : Result<Duration>(std::unexpected(node.error()));
  if (!duration || *duration <= Duration(0)) return wrong(part, kExpected);
  return to_milliseconds(*duration);
}

Result<double> read_percent(std::string_view part, std::string_view value) {
  constexpr std::string_view kExpected = "expected a percentage from 0% to 100%, such as 1%";
  if (!value.ends_with('%')) return wrong(part, kExpected);
  const auto node = YamlNode::parse(trim(value.substr(0, value.size() - 1)), "--slo");
  const auto percent = node ? node->as_double(0, 100) : Result<double>(std::unexpected(node.error()));
  if (!percent) return wrong(part, kExpected);
  return *percent;
}

Result<Objective> read_objective(std::string_view part) {
  const auto equals = part.find('=');
  if (equals == std::string_view::npos) return wrong(part, "expected NAME=LIMIT, such as ttft_p95=600ms");
  const std::string_view name = trim(part.substr(0, equals));
  const std::string_view value = trim(part.substr(equals + 1));
  const auto* known = std::ranges::find(kNames, name, &Name::name);
  if (known == kNames.end()) {
    std::string names;
    for (const Name& one : kNames) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
    return wrong(part, fmt::format("no objective \"{}\"; there are {}", name, names));
  }
  KVIST_TRY(const double limit,
            known->metric == Metric::kErrorPct ? read_percent(part, value) : read_milliseconds(part, value));
  return Objective{known->metric, limit};
}

bool limits(const Slo& slo, Metric metric) {
  return std::ranges::find(slo, metric, &Objective::metric) != slo.end();
}

}  // namespace

Result<Slo> parse_slo(std::string_view text) {
  if (text.size() > kMaxSloBytes) return fail(ErrorCode::kTooLarge, "--slo: longer than 1,024 characters");
  Slo slo;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view part = trim(text.substr(begin, comma - begin));
    begin = comma + 1;
    KVIST_TRY(const Objective objective, read_objective(part));
    if (limits(slo, objective.metric)) return wrong(part, "this objective is given twice");
    slo.push_back(objective);
  }
  return slo;
}

Slo with_error_limit(Slo slo, double max_error_pct) {
  if (!limits(slo, Metric::kErrorPct)) slo.push_back({Metric::kErrorPct, max_error_pct});
  return slo;
}

std::string to_string(const Slo& slo) {
  std::string text;
  for (const Objective& objective : slo) {
    const auto* known = std::ranges::find(kNames, objective.metric, &Name::metric);
    const std::string_view unit = objective.metric == Metric::kErrorPct ? "%" : "ms";
    text += fmt::format("{}{}={}{}", text.empty() ? "" : ",", known->name, render::format_plain(objective.limit), unit);
  }
  return text;
}

std::string to_string(const Objective& objective) {
  const analysis::NamedFigure& named = analysis::figure_of(objective.metric);
  return fmt::format("{} <= {} {}", named.plain_title, render::format_plain(objective.limit), named.plain_unit);
}

}  // namespace kvist::planning
