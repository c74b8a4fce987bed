#include "kvist/analysis/regression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kvist/base/json.h"

namespace kvist::analysis {
namespace {

bool overlap(const std::optional<Interval>& a, const std::optional<Interval>& b) {
  return a && b && a->low <= b->high && b->low <= a->high;
}

FigureRegression compare_figure(Headline figure, const Estimate& before, const Estimate& after,
                                const RegressionTolerance& tolerance) {
  FigureRegression result{.level = {}, .figure = figure, .before = before, .after = after, .change = {}};
  if (!before.value) return result;  // it was not known before, so it cannot have become worse
  if (!after.value) {
    result.verdict = RegressionVerdict::kUnknown;
    result.reason = "not measured any more";
    return result;
  }
  if (headline(figure).is_percentage()) {
    result.change = *after.value - *before.value;
  } else if (*before.value > 0) {
    result.change = 100 * (*after.value / *before.value - 1);
  } else {
    return result;
  }
  const double worse_by = headline(figure).larger_is_better ? -*result.change : *result.change;
  const double tolerated = figure == Headline::kErrorPct ? tolerance.error_points : tolerance.figures_pct;
  if (std::abs(worse_by) <= tolerated || overlap(before.interval, after.interval)) return result;
  result.verdict = worse_by > 0 ? RegressionVerdict::kWorse : RegressionVerdict::kBetter;
  return result;
}

/// Why a level says nothing; empty if it does.
std::string obstacle(const JudgedLevel& before, const JudgedLevel* after) {
  if (after == nullptr) return "not measured any more";
  if (after->client_degraded) return "the load generator was too busy to measure";
  if (before.client_degraded) return "the load generator of the earlier run was too busy to measure";
  if (after->excluded && !before.excluded) return "too many errors";
  return {};
}

Result<Estimate> read_estimate(const JsonObject& figures, std::string_view key) {
  KVIST_TRY(const std::optional<JsonObject> figure, figures.find_object(key));
  if (!figure) return Estimate{};
  constexpr double kMost = std::numeric_limits<double>::max();
  Estimate estimate;
  KVIST_TRY(estimate.value, figure->find_double("value", -kMost, kMost));
  KVIST_TRY(const std::optional<double> low, figure->find_double("low", -kMost, kMost));
  KVIST_TRY(const std::optional<double> high, figure->find_double("high", -kMost, kMost));
  if (low && high) estimate.interval = Interval{.low = *low, .high = *high};
  return estimate;
}

/// What a load was: its data set, and how requests were started.
Result<std::string> load_name(const JsonObject& root) {
  constexpr double kMost = std::numeric_limits<double>::max();
  KVIST_TRY(const std::optional<std::string_view> dataset, root.find_string("dataset"));
  KVIST_TRY(const std::optional<double> concurrency, root.find_double("concurrency", 0, kMost));
  KVIST_TRY(const std::optional<double> rate, root.find_double("rate_per_s", 0, kMost));
  KVIST_TRY(const std::optional<JsonObject> arrivals, root.find_object("arrivals"));
  std::string name(dataset.value_or("load"));
  if (concurrency) return fmt::format("{}, {:g} at once", name, *concurrency);
  if (!rate) return name + " at its own instants";
  std::string_view law;
  if (arrivals) {
    KVIST_TRY(law, arrivals->require_string("law"));
  }
  return fmt::format("{}, {:g}/s{}{}", name, *rate, law.empty() ? "" : " ", law);
}

/// Lines of a workload's YAML that say what is sent and when. Seeds differ between runs of one kind, and so do the
/// places of files, whose content is compared.
void add_workload(std::string_view yaml, std::string_view prefix, std::vector<std::string>& lines) {
  while (!yaml.empty()) {
    const std::string_view line = yaml.substr(0, yaml.find('\n'));
    yaml.remove_prefix(std::min(yaml.size(), line.size() + 1));
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) continue;
    const std::string_view key = line.substr(begin);
    if (key.starts_with("seed:") || key.starts_with("file:")) continue;
    lines.push_back(fmt::format("{}{}", prefix, line));
  }
}

/// What a load of `kvist loadgen` sent. An older summary has less of it, and is compared by that.
Result<std::vector<std::string>> load_lines(const JsonObject& root) {
  constexpr double kMost = std::numeric_limits<double>::max();
  std::vector<std::string> lines;
  KVIST_TRY(const std::optional<std::string_view> workload, root.find_string("workload"));
  if (workload) add_workload(*workload, "", lines);
  for (const char* key : {"dataset_sha256", "tokenizer_sha256", "prompt_ids"}) {
    KVIST_TRY(const std::optional<std::string_view> text, root.find_string(key));
    if (text) lines.push_back(fmt::format("{}: {}", key, *text));
  }
  KVIST_TRY(const std::optional<JsonObject> think, root.find_object("think_time_s"));
  if (think) {
    KVIST_TRY(const double least, think->require_double("least", 0, kMost));
    KVIST_TRY(const double most, think->require_double("most", 0, kMost));
    KVIST_TRY(const bool frees_place, think->bool_or("frees_place", false));
    lines.push_back(fmt::format("think time: {:g} s to {:g} s{}", least, most, frees_place ? ", place left" : ""));
  }
  KVIST_TRY(const std::optional<JsonArray> mix, root.find_array("mix"));
  if (!mix) return lines;
  for (const JsonValue value : *mix) {
    KVIST_TRY(const JsonObject part, value.as_object());
    KVIST_TRY(const double weight, part.require_double("weight", 0, kMost));
    KVIST_TRY(const std::optional<std::string_view> text, part.find_string("workload"));
    KVIST_TRY(const std::string_view sha256, part.require_string("sha256"));
    lines.push_back(fmt::format("mix: {:g} parts{}", weight, text ? "" : fmt::format(" of {}", sha256)));
    if (text) add_workload(*text, "mix: ", lines);
  }
  return lines;
}

/// The first line of one that the other does not have there; nothing if they are equal, or one is not known.
std::optional<std::string> difference(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  if (before.empty() || after.empty()) return std::nullopt;
  const auto [old, now] = std::ranges::mismatch(before, after);
  if (old == before.end() && now == after.end()) return std::nullopt;
  return fmt::format("{} before, {} now", old == before.end() ? "nothing more" : fmt::format("\"{}\"", *old),
                     now == after.end() ? "nothing more" : fmt::format("\"{}\"", *now));
}

std::string names_of(const std::vector<JudgedLevel>& levels) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string_view> names;
  for (const JudgedLevel& level : levels) {
    if (names.size() == kMost) break;
    names.push_back(level.name);
  }
  if (names.empty()) return "nothing";
  return fmt::format("{}{}", fmt::join(names, "; "), levels.size() > kMost ? "; ..." : "");
}

}  // namespace

std::span<const Headline> judged_figures() {
  static constexpr std::array kFigures = {Headline::kTtftP50,    Headline::kTtftP95,    Headline::kTpotP50,
                                          Headline::kItlP95,     Headline::kLatencyP95, Headline::kThroughput,
                                          Headline::kHitRatePct, Headline::kErrorPct};
  return kFigures;
}

std::vector<JudgedLevel> judged_levels(const RunAnalysis& analysis) {
  std::vector<JudgedLevel> levels;
  for (const MeasuredLevel& level : analysis.levels()) {
    JudgedLevel judged{
        .name = fmt::format("{} at {}", spec::to_string(level.analysis.mode), level.analysis.concurrency),
        .estimates = {},
        .excluded = level.analysis.excluded,
        .client_degraded = !analysis.run().simulated && !level.analysis.client.ok()};
    add_workload(spec::to_yaml(analysis.sweep().workload), "", judged.load);
    for (const Headline figure : judged_figures()) {
      judged.estimates.push_back(estimate_of(level, headline(figure)));
    }
    levels.push_back(std::move(judged));
  }
  return levels;
}

Result<std::vector<JudgedLevel>> judged_levels_of_summary(std::string_view text, const std::string& path) {
  JsonDocument document({.name = path});
  KVIST_TRY(const JsonObject root, document.parse_object(text));
  KVIST_TRY(const JsonObject figures, root.require_object("figures"));
  KVIST_TRY(const JsonObject client, root.require_object("client"));
  KVIST_TRY(const std::string_view verdict, client.require_string("verdict"));
  KVIST_TRY(std::string name, load_name(root));
  JudgedLevel level{.name = std::move(name),
                    .estimates = {},
                    .excluded = false,
                    .client_degraded = verdict != "valid" && verdict != "ok"};
  KVIST_TRY(level.load, load_lines(root));
  for (const Headline figure : judged_figures()) {
    KVIST_TRY(Estimate estimate, read_estimate(figures, headline(figure).key));
    level.estimates.push_back(estimate);
  }
  return std::vector<JudgedLevel>{std::move(level)};
}

Result<void> check_comparable(const std::vector<JudgedLevel>& before, const std::string& before_name,
                              const std::vector<JudgedLevel>& after, const std::string& after_name) {
  bool common = false;
  for (const JudgedLevel& level : before) {
    const auto same = std::ranges::find(after, level.name, &JudgedLevel::name);
    if (same == after.end()) continue;
    common = true;
    if (const std::optional<std::string> differs = difference(level.load, same->load)) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{} and {} both have \"{}\", but did not send the same: {}",
                                                           before_name, after_name, level.name, *differs));
    }
  }
  if (common) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("nothing to compare: {} has {}, {} has {}", before_name,
                                                       names_of(before), after_name, names_of(after)));
}

std::vector<FigureRegression> compare_runs(const std::vector<JudgedLevel>& before,
                                           const std::vector<JudgedLevel>& after,
                                           const RegressionTolerance& tolerance) {
  std::vector<FigureRegression> results;
  for (const JudgedLevel& old : before) {
    const auto found = std::ranges::find(after, old.name, &JudgedLevel::name);
    const JudgedLevel* const now = found == after.end() ? nullptr : &*found;
    const std::string reason = obstacle(old, now);
    for (std::size_t i = 0; i < judged_figures().size(); ++i) {
      FigureRegression result = compare_figure(judged_figures()[i], old.estimates[i],
                                               now == nullptr ? Estimate{} : now->estimates[i], tolerance);
      result.level = old.name;
      if (!reason.empty() && old.estimates[i].value) {
        result.verdict = RegressionVerdict::kUnknown;
        result.reason = reason;
      }
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace kvist::analysis
