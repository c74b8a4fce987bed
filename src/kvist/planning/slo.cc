#include "kvist/planning/slo.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kvist/base/yaml.h"
#include "kvist/render/figures.h"

namespace kvist::planning {
namespace {

/// No SLO has more parts; a longer text is no SLO.
constexpr std::size_t kMaxSloBytes = 1'024;
constexpr double kMostPerSecond = 1e12;

/// The name of a figure in an SLO: its key without the unit that the limit has.
std::string_view short_name(std::string_view key) {
  for (const std::string_view unit : {"_ms", "_pct"}) {
    if (key.ends_with(unit)) return key.substr(0, key.size() - unit.size());
  }
  return key;
}

std::optional<Headline> find_objective(std::string_view name) {
  for (std::size_t i = 0; i < spec::kFigures; ++i) {
    const std::string_view key = spec::kFigureKeys[i];
    if (name == key || name == short_name(key)) return static_cast<Headline>(i);
  }
  return std::nullopt;
}

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

Result<double> read_rate(std::string_view part, std::string_view value) {
  const auto node = YamlNode::parse(value, "--slo");
  const auto rate = node ? node->as_double(0, kMostPerSecond) : Result<double>(std::unexpected(node.error()));
  if (!rate || *rate <= 0) return wrong(part, "expected a number above 0 per second, such as 2000");
  return *rate;
}

Result<double> read_limit(Headline figure, std::string_view part, std::string_view value) {
  if (spec::key_of(figure).ends_with("_ms")) return read_milliseconds(part, value);
  if (analysis::headline(figure).is_percentage()) return read_percent(part, value);
  return read_rate(part, value);
}

std::string known_names() {
  std::string names;
  for (const std::string_view key : spec::kFigureKeys) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", short_name(key));
  }
  return names;
}

Result<Objective> read_objective(std::string_view part) {
  const auto sign = part.find_first_of("<>=");
  if (sign == std::string_view::npos) return wrong(part, "expected NAME=LIMIT, such as ttft_p95=600ms");
  const std::string_view relation = part.substr(sign, part[sign] == '=' ? 1 : 2);
  if (relation != "=" && !relation.ends_with('=')) return wrong(part, "expected =, <= or >= between name and limit");
  const std::string_view name = trim(part.substr(0, sign));
  const std::optional<Headline> figure = find_objective(name);
  if (!figure) return wrong(part, fmt::format("no objective \"{}\"; there are {}", name, known_names()));
  const Objective direction{.figure = *figure};
  if (relation != "=" && (relation == ">=") != direction.is_least()) {
    return wrong(part, direction.is_least() ? "more of this figure is better: its limit is the least (>=)"
                                            : "less of this figure is better: its limit is the most (<=)");
  }
  KVIST_TRY(const double limit, read_limit(*figure, part, trim(part.substr(sign + relation.size()))));
  return Objective{*figure, limit};
}

bool limits(const Slo& slo, Headline figure) {
  return std::ranges::find(slo, figure, &Objective::figure) != slo.end();
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
    if (limits(slo, objective.figure)) return wrong(part, "this objective is given twice");
    slo.push_back(objective);
  }
  return slo;
}

Result<void> check_measurable(const Slo& slo, const spec::SweepSpec& sweep) {
  for (const Objective& objective : slo) {
    const std::optional<std::string> missing = spec::missing_for(objective.figure, sweep);
    if (missing) return fail(ErrorCode::kInvalidArgument, "--slo: " + *missing);
  }
  return {};
}

bool needs_gaps(const Slo& slo) {
  return std::ranges::any_of(
      slo, [](const Objective& objective) { return spec::key_of(objective.figure).starts_with("itl_"); });
}

Slo with_error_limit(Slo slo, double max_error_pct) {
  if (!limits(slo, Headline::kErrorPct)) slo.push_back({Headline::kErrorPct, max_error_pct});
  return slo;
}

std::string to_string(const Slo& slo) {
  std::string text;
  for (const Objective& objective : slo) {
    const std::string_view key = spec::key_of(objective.figure);
    const std::string_view unit = analysis::headline(objective.figure).is_percentage() ? "%"
                                  : key.ends_with("_ms")                               ? "ms"
                                                                                       : "";
    text +=
        fmt::format("{}{}={}{}", text.empty() ? "" : ",", short_name(key), render::format_plain(objective.limit), unit);
  }
  return text;
}

std::string to_string(const Objective& objective) {
  const analysis::HeadlineFigure& figure = analysis::headline(objective.figure);
  const bool has_unit_in_title = figure.unit.ends_with("/s");
  return fmt::format("{} {} {}{}{}", figure.title,
                     objective.is_least() ? ">=" : "<=", render::format_plain(objective.limit * figure.factor),
                     has_unit_in_title ? "" : " ", has_unit_in_title ? "" : figure.unit);
}

}  // namespace kvist::planning
