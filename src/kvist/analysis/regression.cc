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

FigureRegression compare_figure(const JudgedFigure& figure, const Estimate& before, const Estimate& after,
                                const RegressionTolerance& tolerance) {
  FigureRegression result{.level = {}, .figure = figure, .before = before, .after = after, .change = {}};
  if (!before.value) return result;  // it was not known before: nothing can have become worse
  if (!after.value) {
    result.verdict = RegressionVerdict::kUnknown;
    result.reason = "not measured any more";
    return result;
  }
  if (figure.in_points) {
    result.change = *after.value - *before.value;
  } else if (*before.value > 0) {
    result.change = 100 * (*after.value / *before.value - 1);
  } else {
    return result;
  }
  const double worse_by = figure.less_is_better ? *result.change : -*result.change;
  const double tolerated = figure.which == Headline::kErrorPct ? tolerance.error_points : tolerance.figures_pct;
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

const std::vector<JudgedFigure>& judged_figures() {
  static const std::vector<JudgedFigure> kFigures = {{Headline::kTtftP50},
                                                     {Headline::kTtftP95},
                                                     {Headline::kTpotP50},
                                                     {Headline::kItlP95},
                                                     {Headline::kLatencyP95},
                                                     {Headline::kThroughput, false},
                                                     {Headline::kHitRatePct, false, true},
                                                     {Headline::kErrorPct, true, true}};
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
    for (const JudgedFigure& figure : judged_figures()) {
      judged.estimates.push_back(estimate_of(level, headline(figure.which)));
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
  for (const JudgedFigure& figure : judged_figures()) {
    KVIST_TRY(Estimate estimate, read_estimate(figures, headline(figure.which).key));
    level.estimates.push_back(estimate);
  }
  return std::vector<JudgedLevel>{std::move(level)};
}

Result<void> check_comparable(const std::vector<JudgedLevel>& before, const std::string& before_name,
                              const std::vector<JudgedLevel>& after, const std::string& after_name) {
  const bool common = std::ranges::any_of(before, [&](const JudgedLevel& level) {
    return std::ranges::find(after, level.name, &JudgedLevel::name) != after.end();
  });
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
