#include "kvist/analysis/run_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "kvist/analysis/regression.h"
#include "kvist/analysis/repetition_values.h"
#include "kvist/base/statistics.h"
#include "kvist/base/student_t.h"
#include "kvist/base/yaml.h"

namespace kvist::analysis {
namespace {

using Repetitions = std::vector<const Measurement*>;

/// A difference in the unit of a change: percent of `before`, or points.
double as_change(double difference, double before, const HeadlineFigure& figure) {
  return figure.is_percentage() ? difference : 100 * difference / before;
}

std::vector<double> values_of(const Repetitions& repetitions, const HeadlineFigure& figure) {
  std::vector<double> values;
  for (const Measurement* repetition : repetitions) {
    const std::optional<double> value = figure.figure(repetition->analysis);
    if (value && std::isfinite(*value)) values.push_back(*value);
  }
  return values;
}

/// The changes of repetitions that both have with one seed, in the unit of a change by their mean before.
std::vector<double> paired_changes(const Repetitions& before, const Repetitions& after, const HeadlineFigure& figure) {
  std::vector<double> changes;
  double mean_before = 0;
  for (const Measurement* old : before) {
    const auto same = std::ranges::find_if(after, [&](const Measurement* other) {
      return other->record.seed == old->record.seed && other->record.repetition == old->record.repetition;
    });
    if (same == after.end()) continue;
    const std::optional<double> from = figure.figure(old->analysis);
    const std::optional<double> to = figure.figure((*same)->analysis);
    if (!from || !to || !std::isfinite(*from) || !std::isfinite(*to)) continue;
    changes.push_back(*to - *from);
    mean_before += *from;
  }
  mean_before /= static_cast<double>(std::max<std::size_t>(changes.size(), 1));
  if (!figure.is_percentage() && !(mean_before > 0)) return {};
  for (double& change : changes) change = as_change(change, mean_before, figure);
  return changes;
}

/// Welch's t over independent values of both.
Interval welch_interval(const std::vector<double>& before, const std::vector<double>& after,
                        const HeadlineFigure& figure) {
  const Distribution a = describe(before);
  const Distribution b = describe(after);
  const double change = as_change(b.mean - a.mean, a.mean, figure);
  const auto variance = [](const Distribution& d) {
    return d.standard_deviation * d.standard_deviation / static_cast<double>(d.count);
  };
  const double both = variance(a) + variance(b);
  if (both <= 0) return {.low = change, .high = change};
  const auto share = [](double part, std::size_t count) { return part * part / static_cast<double>(count - 1); };
  const double freedom = both * both / (share(variance(a), a.count) + share(variance(b), b.count));
  const auto degrees = static_cast<std::size_t>(std::max(1.0, std::floor(freedom)));
  const double half =
      as_change(student_t_quantile(0.5 + kPairedConfidence / 2, degrees) * std::sqrt(both), a.mean, figure);
  return {.low = change - half, .high = change + half};
}

/// The change of means, with its interval. Of pairs both are those of the pairs: repetitions that only one of the two
/// has drove other conversations.
Estimate estimate_of_change(const MeasuredLevel& before, const MeasuredLevel& after, const HeadlineFigure& figure,
                            double change_of_means) {
  const Repetitions old = counted_repetitions(before);
  const Repetitions now = counted_repetitions(after);
  Estimate change{.value = change_of_means, .interval = {}};
  const bool same_requests = before.same_requests || after.same_requests;
  if (!same_requests) {
    const std::vector<double> paired = paired_changes(old, now, figure);
    if (paired.size() >= kLeastRepetitionsForT) {
      return {.value = describe(paired).mean, .interval = t_interval(paired)};
    }
    const std::vector<double> old_values = values_of(old, figure);
    const std::vector<double> new_values = values_of(now, figure);
    if (old_values.size() >= kLeastRepetitionsForT && new_values.size() >= kLeastRepetitionsForT) {
      change.interval = welch_interval(old_values, new_values, figure);
      return change;
    }
  }
  if (figure.percentile) {
    change.interval = interval_of_percent(common_replicates(old, *figure.percentile, same_requests),
                                          common_replicates(now, *figure.percentile, same_requests));
  }
  return change;
}

PairedVerdict verdict_of_change(const Interval& interval, const HeadlineFigure& figure) {
  return verdict_of({.pairs = 2, .low = interval.low, .high = interval.high}, 0, !figure.larger_is_better);
}

/// The settings of a mapping or list as lines of path and value.
void flatten(const YamlNode& node, const std::string& path, std::map<std::string, std::string>& values) {
  const auto below = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  if (node.is_map()) {
    const auto entries = node.entries();
    if (!entries) return;
    for (const auto& [key, value] : *entries) flatten(value, below(key), values);
  } else if (node.is_sequence()) {
    const auto elements = node.elements();
    if (!elements) return;
    for (std::size_t i = 0; i < elements->size(); ++i) flatten((*elements)[i], below(fmt::format("{}", i)), values);
  } else if (const auto text = node.as_string()) {
    values.emplace(path, *text);
  }
}

/// Where something runs, what it is called, and which arm is under way are no settings that a figure depends on.
bool is_setting(std::string_view key) {
  constexpr std::array<std::string_view, 6> kWhere = {"name", "port", "url", "host", "file", "mode"};
  const std::string_view last = key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
  for (const std::string_view word : kWhere) {
    if (last == word ||
        (last.size() > word.size() && last.ends_with(word) && last[last.size() - word.size() - 1] == '_'))
      return false;
  }
  constexpr std::array<std::string_view, 5> kParts = {"deployment.", "target.", "method.", "comparison.",
                                                      "simulation."};
  return std::ranges::any_of(kParts, [key](std::string_view part) { return key.starts_with(part); });
}

std::map<std::string, std::string> settings_of(const spec::SweepSpec& sweep) {
  std::map<std::string, std::string> values;
  if (const auto root = YamlNode::parse(spec::to_yaml(sweep), "settings")) flatten(*root, "", values);
  std::erase_if(values, [](const auto& entry) { return !is_setting(entry.first); });
  return values;
}

/// What both sent, line by line without seeds; nothing if that is the same.
std::optional<std::string> load_difference(const RunAnalysis& before, const RunAnalysis& after) {
  const std::vector<JudgedLevel> old = judged_levels(before);
  const std::vector<JudgedLevel> now = judged_levels(after);
  if (old.empty() || now.empty()) return std::nullopt;
  const auto [one, other] = std::ranges::mismatch(old.front().load, now.front().load);
  if (one == old.front().load.end() && other == now.front().load.end()) return std::nullopt;
  return fmt::format("\"{}\" and \"{}\"", one == old.front().load.end() ? "nothing more" : *one,
                     other == now.front().load.end() ? "nothing more" : *other);
}

std::vector<ArmPair> arms_in_common(const RunAnalysis& before, const RunAnalysis& after) {
  std::vector<ArmPair> arms;
  for (const spec::Arm& arm : before.modes()) {
    if (std::ranges::find(after.modes(), arm) != after.modes().end()) arms.push_back({arm, arm});
  }
  if (arms.empty() && before.modes().size() == 1 && after.modes().size() == 1) {
    arms.push_back({before.modes().front(), after.modes().front()});
  }
  return arms;
}

}  // namespace

std::vector<std::string> own_objections(const MeasuredLevel& level) {
  std::vector<std::string> objections;
  for (const Measurement* repetition : counted_repetitions(level)) {
    for (const std::string& objection : repetition->analysis.objections) {
      if (std::ranges::find(objections, objection) == objections.end()) objections.push_back(objection);
    }
  }
  return objections;
}

FigureChange change_of(const MeasuredLevel* before, const MeasuredLevel* after, const HeadlineFigure& figure) {
  FigureChange change;
  if (before != nullptr) change.before = estimate_of(*before, figure);
  if (after != nullptr) change.after = estimate_of(*after, figure);
  if (before == nullptr || after == nullptr || before->analysis.excluded || after->analysis.excluded) return change;
  if (!own_objections(*before).empty() || !own_objections(*after).empty()) return change;
  if (!change.before.value || !change.after.value) return change;
  if (!figure.is_percentage() && !(*change.before.value > 0)) return change;
  change.change = estimate_of_change(
      *before, *after, figure, as_change(*change.after.value - *change.before.value, *change.before.value, figure));
  if (change.change.interval) change.verdict = verdict_of_change(*change.change.interval, figure);
  return change;
}

Result<RunPair> pair_runs(NamedRun before, NamedRun after) {
  const RunAnalysis& old = *before.analysis;
  const RunAnalysis& now = *after.analysis;
  const auto refuse = [&](std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{} and {}: {}", before.name, after.name, what));
  };
  if (old.run().simulated != now.run().simulated) return refuse("one is simulated and the other measured");
  if (const auto difference = load_difference(old, now)) return refuse("they sent different loads: " + *difference);
  RunPair pair{.before = before, .after = after, .arms = arms_in_common(old, now), .concurrencies = {}};
  if (pair.arms.empty()) return refuse("they have no arm in common");
  std::set<std::uint32_t> levels(old.concurrencies().begin(), old.concurrencies().end());
  const bool any =
      std::ranges::any_of(now.concurrencies(), [&](std::uint32_t level) { return levels.contains(level); });
  if (!any) return refuse("they have no level in common");
  levels.insert(now.concurrencies().begin(), now.concurrencies().end());
  pair.concurrencies.assign(levels.begin(), levels.end());
  return pair;
}

std::vector<SettingChange> setting_changes(const spec::SweepSpec& before, const spec::SweepSpec& after) {
  const std::map<std::string, std::string> old = settings_of(before);
  const std::map<std::string, std::string> now = settings_of(after);
  std::set<std::string> keys;
  for (const auto* const values : {&old, &now}) {
    for (const auto& [key, value] : *values) keys.insert(key);
  }
  const auto text = [](const std::map<std::string, std::string>& values, const std::string& key) {
    const auto found = values.find(key);
    return found == values.end() ? std::string("-") : found->second;
  };
  std::vector<SettingChange> changes;
  for (const std::string& key : keys) {
    SettingChange change{.key = key, .before = text(old, key), .after = text(now, key)};
    if (change.before != change.after) changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace kvist::analysis
