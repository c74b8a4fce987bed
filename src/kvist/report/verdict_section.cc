// What a run shows, in a few lines at its top.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "kvist/analysis/comparison.h"
#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::Headline;

render::Text item(const char* label, std::string text) {
  return {render::strong(label), {" " + std::move(text)}};
}

/// The gains of one figure over the levels.
struct Gains {
  std::size_t better = 0;  ///< the interval lies above 0
  std::size_t worse = 0;   ///< below 0
  std::size_t open = 0;    ///< the interval contains 0, or there is none
  std::optional<std::pair<std::uint32_t, analysis::Estimate>> least, most;

  void add(std::uint32_t level, const analysis::Estimate& gain) {
    if (!gain.value) return;
    if (gain.interval && gain.interval->low > 0) {
      ++better;
    } else if (gain.interval && gain.interval->high < 0) {
      ++worse;
    } else {
      ++open;
    }
    if (!least || *gain.value < *least->second.value) least = {level, gain};
    if (!most || *gain.value > *most->second.value) most = {level, gain};
  }
};

std::string gains_text(const analysis::RunAnalysis& analysis, Headline figure) {
  Gains gains;
  for (const std::uint32_t level : analysis.concurrencies()) {
    gains.add(level, analysis::gain_of(analysis.find(analysis.modes()[0], level),
                                       analysis.find(analysis.modes()[1], level), analysis::headline(figure)));
  }
  if (!gains.least) return "no level can be compared.";
  return fmt::format(
      "better at {} levels, worse at {}, not decided at {} (the interval contains 0, or is not known); from "
      "{} at {} to {} at {}.",
      gains.better, gains.worse, gains.open, gain_cell(gains.least->second), gains.least->first,
      gain_cell(gains.most->second), gains.most->first);
}

/// What speaks against comparing the arms, the first reasons in full.
std::string refused_text(const analysis::RunAnalysis& analysis) {
  constexpr std::size_t kMostShown = 5;
  const std::vector<std::string> all = analysis::refusals(analysis);
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostShown); ++i) text += (i == 0 ? "" : "; ") + all[i];
  if (all.size() > kMostShown) text += fmt::format("; and {} more", all.size() - kMostShown);
  return text.empty() ? text : text + ".";
}

std::string compared_text(const analysis::RunAnalysis& analysis) {
  std::string modes;
  for (const spec::Arm& mode : analysis.modes()) {
    modes += (modes.empty() ? "" : ", ") + std::string(analysis::long_name(mode));
  }
  if (analysis.modes().size() == 2) {
    modes = fmt::format("{} against {} (baseline), the same conversations in both",
                        analysis::long_name(analysis.modes()[1]), analysis::long_name(analysis.modes()[0]));
  }
  return fmt::format("{}; {} levels; {}.", modes, analysis.concurrencies().size(),
                     analysis.run().simulated ? "simulated in virtual time" : "live");
}

std::string client_text(const analysis::RunAnalysis& analysis) {
  if (analysis.run().simulated) return "simulated: takes no time.";
  const auto degraded = std::ranges::count_if(
      analysis.levels(), [&](const analysis::MeasuredLevel& level) { return client_degraded(analysis, level); });
  if (degraded == 0) return "kept up at every level.";
  return fmt::format("too busy at {} of {} measurements, which are marked: their figures contain its own delays.",
                     degraded, analysis.levels().size());
}

std::string excluded_text(const analysis::RunAnalysis& analysis) {
  const auto excluded = std::ranges::count_if(
      analysis.levels(), [](const analysis::MeasuredLevel& level) { return level.analysis.excluded; });
  std::string text =
      excluded == 0 ? "nothing."
                    : fmt::format("{} of {} measurements, for more than {} errors.", excluded, analysis.levels().size(),
                                  render::format_pct(analysis.sweep().method.max_error_pct));
  if (!analysis.run().left_out.empty()) {
    text += fmt::format(" Left out by hand: {}.", fmt::join(analysis.run().left_out, ", "));
  }
  const std::size_t planned = analysis.sweep().levels.size();
  if (planned > analysis.concurrencies().size()) {
    text += fmt::format(" {} planned levels were not measured.", planned - analysis.concurrencies().size());
  }
  return text;
}

}  // namespace

void add_verdict(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (analysis.levels().empty()) return;
  render::Bullets bullets;
  bullets.items.push_back(item("Compared:", compared_text(analysis)));
  if (analysis.modes().size() == 2) {
    bullets.items.push_back(item("Gain in TTFT p50:", gains_text(analysis, Headline::kTtftP50)));
    bullets.items.push_back(item("Gain in TTFT p95:", gains_text(analysis, Headline::kTtftP95)));
  }
  if (const std::string refused = refused_text(analysis); !refused.empty()) {
    bullets.items.push_back(item("Not compared:", refused));
  }
  bullets.items.push_back(item("Load generator:", client_text(analysis)));
  bullets.items.push_back(item("Excluded:", excluded_text(analysis)));
  document.push_back(render::Heading{2, "Verdict"});
  document.push_back(std::move(bullets));
}

}  // namespace kvist::report
