#include "kvist/planning/level_figures.h"

namespace kvist::planning {

LevelFigures figures_of(const analysis::LevelAnalysis& analysis) {
  LevelFigures figures;
  for (const Metric metric : kMetrics) figures[metric] = analysis::figure_of(metric).figure(analysis);
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
    const auto which = static_cast<Headline>(i);
    figures[which] = analysis::headline(which).figure(analysis);
  }
  return figures;
}

}  // namespace kvist::planning
