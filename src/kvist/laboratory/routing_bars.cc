#include "kvist/laboratory/routing_bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvist::laboratory {
namespace {

using Value = std::optional<double>;

Result<Value> mean_figure(const analysis::RunAnalysis& run, const std::string& name,
                          const std::vector<std::string>& arguments, std::uint32_t level) {
  const analysis::NamedFigure* named = analysis::find_figure(name);
  if (named == nullptr) return fail(ErrorCode::kInvalidArgument, fmt::format("no figure \"{}\"", name));
  if (arguments.size() != 1) return fail(ErrorCode::kInvalidArgument, fmt::format("{} wants a mode", name));
  KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(arguments.front()));
  const analysis::MeasuredLevel* measured = run.find(mode, level);
  return measured == nullptr ? Value() : named->figure(measured->analysis);
}

Value change_figure(const std::string& name, const analysis::FigureComparison& figure) {
  if (figure.verdict == analysis::PairedVerdict::kOpen) return std::nullopt;
  if (name == "not_worse") return figure.verdict == analysis::PairedVerdict::kWorse ? 0.0 : 1.0;
  if (name == "better") return figure.verdict == analysis::PairedVerdict::kBetter ? 1.0 : 0.0;
  if (figure.change.pairs == 0) return std::nullopt;
  if (name == "ratio") return figure.change.estimate;
  return name == "low" ? figure.change.low : figure.change.high;
}

constexpr std::array<std::string_view, 5> kChanges = {"ratio", "low", "high", "not_worse", "better"};

bool is_change(const std::string& name) {
  return std::ranges::find(kChanges, name) != kChanges.end();
}

}  // namespace

Figures level_figures(const analysis::RunAnalysis& run, const analysis::RunComparison& comparison,
                      spec::RoutingMode candidate, std::uint32_t level) {
  Figures figures{.names = {kChanges.begin(), kChanges.end()}, .find = {}};
  for (const analysis::NamedFigure& named : analysis::published_figures()) figures.names.emplace_back(named.key);
  figures.find = [&run, &comparison, candidate, level](const std::string& name,
                                                       const std::vector<std::string>& arguments) -> Result<Value> {
    if (!is_change(name)) return mean_figure(run, name, arguments, level);
    if (arguments.size() != 1) return fail(ErrorCode::kInvalidArgument, fmt::format("{} wants a figure", name));
    const auto known = std::ranges::find(analysis::kComparedFigures, arguments.front(), &analysis::ComparedFigure::key);
    if (known == analysis::kComparedFigures.end()) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{} is not compared", arguments.front()));
    }
    const analysis::LevelComparison* compared = comparison.find(candidate, level);
    return compared == nullptr ? Value() : change_figure(name, *compared->find(known->key));
  };
  return figures;
}

Result<std::vector<BarOutcome>> hold_bars(const RoutingScenario& scenario, spec::RoutingMode candidate,
                                          const analysis::RunAnalysis& run, const analysis::RunComparison& comparison) {
  std::vector<BarOutcome> outcomes;
  for (const DemandedBar& demanded : scenario.bars) {
    for (const std::uint32_t level : run.concurrencies()) {
      if (!demanded.is_demanded_at(level)) continue;
      const Figures figures = level_figures(run, comparison, candidate, level);
      const auto place = [&](Error error) {
        return std::move(error).in(fmt::format("{}: bar {}", scenario.name, demanded.bar.id));
      };
      const Result<Value> holds = evaluate(demanded.bar.holds_if, figures);
      if (!holds) return std::unexpected(place(holds.error()));
      Result<std::string> shows = fill_in(demanded.bar.shows, figures);
      if (!shows) return std::unexpected(place(shows.error()));
      outcomes.push_back({.demanded = &demanded,
                          .level = level,
                          .holds = *holds ? std::optional(std::abs(**holds) > 0) : std::nullopt,
                          .shows = *std::move(shows)});
    }
  }
  return outcomes;
}

std::size_t count(const std::vector<BarOutcome>& outcomes, std::optional<bool> holds) {
  return static_cast<std::size_t>(std::ranges::count(outcomes, holds, &BarOutcome::holds));
}

}  // namespace kvist::laboratory
