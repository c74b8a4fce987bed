#include "kvist/analysis/named_figures.h"

#include <gtest/gtest.h>

#include <set>

namespace kvist::analysis::named_figures_test {
namespace {

TEST(NamedFigures, TheCatalogueHasEachMetricOnceWithAllItsTitles) {
  std::set<std::string_view> keys;
  for (const Metric metric : kMetrics) {
    const NamedFigure& named = figure_of(metric);
    EXPECT_EQ(named.metric, metric);
    EXPECT_EQ(find_figure(named.key), &named);
    EXPECT_TRUE(keys.insert(named.key).second) << named.key;
    for (const std::string_view text : {named.title, named.mode_title, named.terminal_title, named.plain_title,
                                        named.plain_unit, named.plot_title, named.plot_unit})
      EXPECT_FALSE(text.empty()) << named.key;
  }
  EXPECT_EQ(keys.size(), published_figures().size());
  EXPECT_EQ(find_figure("ttft_p42_ms"), nullptr);
}

// The figure itself is in plain_unit; the factor makes plot_unit of it.
TEST(NamedFigures, APlotHasAnotherUnitOnlyWithAFactor) {
  for (const NamedFigure& named : published_figures()) {
    const bool scaled = named.plot_factor != 1;
    EXPECT_EQ(scaled, named.plain_unit == "ms" && named.plot_unit == "s") << named.key;
  }
}

}  // namespace
}  // namespace kvist::analysis::named_figures_test
