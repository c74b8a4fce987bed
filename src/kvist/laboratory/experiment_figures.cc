#include "kvist/laboratory/experiment_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace kvist::laboratory {
namespace {

using Figure = std::optional<double>;

constexpr std::array<std::string_view, 6> kPrefixes = {"", "published_", "simulated_", "low_", "high_", "sd_"};
/// The names that own_figure() knows.
constexpr std::array<std::string_view, 9> kOwnFigures = {
    "turn_mean_hit_rate_pct", "imbalance",   "evictions",    "preemptions", "prefilled_tokens",
    "kv_use_max_pct",         "waiting_max", "running_mean", "acceptance"};

Result<std::uint32_t> read_concurrency(const std::string& text) {
  std::uint32_t concurrency = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), concurrency);
  if (code != std::errc() || end != text.data() + text.size()) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is no concurrency level", text));
  }
  return concurrency;
}

/// Removes `prefix` from the front of a name. Returns whether it was there.
bool take_prefix(std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.erase(0, prefix.size());
  return true;
}

template <class Get>
double largest(const analysis::MeasuredLevel& level, const Get& get) {
  double value = 0;
  for (const results::WorkerLevelRecord& worker : level.record.workers) value = std::max(value, get(worker));
  return value;
}

template <class Get>
double per_repetition(const analysis::MeasuredLevel& level, const Get& get) {
  double sum = 0;
  for (const results::WorkerLevelRecord& worker : level.record.workers) sum += static_cast<double>(get(worker));
  return sum / static_cast<double>(level.repetitions.size());
}

/// Figures of runs that are not published.
Result<Figure> own_figure(const std::string& name, const analysis::MeasuredLevel& level) {
  using Worker = results::WorkerLevelRecord;
  if (name == "turn_mean_hit_rate_pct") return level.analysis.hit_rate.turn_mean_pct;
  if (name == "imbalance") return level.analysis.imbalance;
  if (name == "evictions") {
    const auto counts = [](const Worker& w) { return w.evictions.has_value(); };
    if (!std::ranges::all_of(level.record.workers, counts)) return Figure();
    return per_repetition(level, [](const Worker& w) { return *w.evictions; });
  }
  if (name == "preemptions") return per_repetition(level, [](const Worker& w) { return w.preemptions; });
  if (name == "prefilled_tokens") return per_repetition(level, [](const Worker& w) { return w.prefilled_tokens; });
  if (name == "kv_use_max_pct") return largest(level, [](const Worker& w) { return 100 * w.kv_usage_max; });
  if (name == "waiting_max") return largest(level, [](const Worker& w) { return w.waiting_max; });
  if (name == "running_mean") return largest(level, [](const Worker& w) { return w.running_mean; });
  if (name == "acceptance") {
    for (const Worker& worker : level.record.workers) {
      if (worker.acceptance_rate) return Figure(worker.acceptance_rate);
    }
    return Figure();
  }
  return fail(ErrorCode::kInvalidArgument, fmt::format("no figure \"{}\"", name));
}

/// The published KV router is Dynamo's. A run has it as dynamo, or kvist's own router in its place.
const analysis::MeasuredLevel* find_level(const analysis::RunAnalysis& run, spec::RoutingMode mode,
                                          std::uint32_t concurrency) {
  return run.find(analysis::stand_in(run, mode), concurrency);
}

}  // namespace

Figures ExperimentFigures::of(Side side) const {
  Figures figures{.names = {"deviation_pct", "slots"}, .find = [this, side](const auto& name, const auto& arguments) {
                    return find(name, arguments, side);
                  }};
  for (const std::string_view prefix : kPrefixes) {
    for (const analysis::NamedFigure& named : analysis::published_figures()) {
      figures.names.push_back(fmt::format("{}{}", prefix, named.key));
    }
    for (const std::string_view name : kOwnFigures) figures.names.push_back(fmt::format("{}{}", prefix, name));
  }
  return figures;
}

Result<Figure> ExperimentFigures::find(std::string name, const Arguments& arguments, Side side) const {
  if (name == "deviation_pct") return deviation(arguments);
  if (take_prefix(name, "published_")) side = Side::kPublished;
  if (take_prefix(name, "simulated_")) side = Side::kSimulated;
  std::string statistic = "mean";
  for (const char* wanted : {"low", "high", "sd"}) {
    if (take_prefix(name, std::string(wanted) + "_")) {
      statistic = wanted;
      side = Side::kSimulated;
    }
  }
  if (name == "slots") return Figure(check_.slots);
  return side == Side::kPublished ? published(name, arguments) : simulated(name, statistic, arguments);
}

Result<Figure> ExperimentFigures::published(const std::string& name, const Arguments& arguments) const {
  const analysis::NamedFigure* named = analysis::find_figure(name);
  if (named == nullptr) return fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is not a published figure", name));
  if (arguments.size() != 2) return fail(ErrorCode::kInvalidArgument, name + " takes a mode and a level");
  KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(arguments[0]));
  KVIST_TRY(const std::uint32_t concurrency, read_concurrency(arguments[1]));
  const analysis::ReferenceFigures* level = check_.reference.find(mode, concurrency);
  return level == nullptr ? Figure() : level->figure(*named);
}

Result<Figure> ExperimentFigures::simulated(const std::string& name, const std::string& statistic,
                                            const Arguments& arguments) const {
  if (arguments.size() != 2 && arguments.size() != 3) {
    return fail(ErrorCode::kInvalidArgument, name + " takes a mode, a level, and maybe the name of a counterfactual");
  }
  const analysis::RunAnalysis* run = &run_;
  if (arguments.size() == 3) {
    const auto other = others_.find(arguments[2]);
    if (other == others_.end()) return fail(ErrorCode::kInvalidArgument, "no counterfactual \"" + arguments[2] + "\"");
    run = &other->second;
  }
  KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(arguments[0]));
  KVIST_TRY(const std::uint32_t concurrency, read_concurrency(arguments[1]));
  const analysis::MeasuredLevel* level = find_level(*run, mode, concurrency);
  if (level == nullptr) return Figure();
  const analysis::NamedFigure* named = analysis::find_figure(name);
  if (named == nullptr) return own_figure(name, *level);
  const std::optional<analysis::Spread> spread = level->spread(named->figure);
  if (!spread) return Figure();
  if (statistic == "low") return Figure(spread->min);
  if (statistic == "high") return Figure(spread->max);
  if (statistic == "sd") return Figure(spread->standard_deviation);
  return Figure(spread->mean);
}

Result<Figure> ExperimentFigures::deviation(const Arguments& arguments) const {
  if (arguments.size() != 2) return fail(ErrorCode::kInvalidArgument, "deviation_pct takes a figure and a mode");
  KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(arguments[1]));
  for (const analysis::FigureCheck& figure : check_.figures) {
    if (figure.mode == mode && figure.figure->key == arguments[0]) return figure.mean_absolute;
  }
  return Figure();
}

}  // namespace kvist::laboratory
