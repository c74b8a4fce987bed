#include "kvist/render/svg_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "kvist/render/html_page.h"
#include "render/html_nesting.h"

namespace kvist::render::svg_plot_test {
namespace {

using ::testing::HasSubstr;

TEST(SvgPlot, AMissingValueInterruptsTheLine) {
  Plot plot{.title = "A & B", .x_title = "x", .y_title = "y", .x_kind = AxisScale::Kind::kLevels, .series = {}};
  plot.series.push_back(
      {.name = "s<1>", .colour = 1, .dashed = true, .points = {{1, 10, "one"}, {2, {}, "two"}, {3, 30, "<3>"}}});
  const std::string svg = render_svg(plot);
  EXPECT_EQ(nesting_error(svg), "");
  EXPECT_THAT(svg, HasSubstr("aria-label=\"A &amp; B\""));
  EXPECT_THAT(svg, HasSubstr("s&lt;1&gt;"));
  EXPECT_EQ(count_of(svg, "<circle class=\"mark s1 hollow\" cx="), 1U + 2U);  // the legend's and two points
  const std::size_t line = svg.find("class=\"line s1 dashed\" d=\"M", svg.find("role=\"img\""));
  ASSERT_NE(line, std::string::npos);
  const std::string path = svg.substr(line, svg.find("/>", line) - line);
  EXPECT_EQ(count_of(path, "M"), 2U);
  EXPECT_EQ(count_of(path, "L"), 0U);
}

TEST(SvgPlot, EveryLineOfManyHasAColour) {
  Plot plot{.title = "t", .x_title = "x", .y_title = "y", .x_kind = AxisScale::Kind::kLevels, .series = {}};
  for (std::size_t mode = 0; mode < 40; ++mode) {
    plot.series.push_back(
        {.name = "mode", .colour = mode, .dashed = false, .points = {{1, 10, "one", 9, 11}, {2, 20, "two", 19, 21}}});
  }
  const std::string page = page_around("t", render_svg(plot), {});
  const std::string sheet = render_svg_sheet({plot}, 1);
  for (std::size_t colour = 0; colour < 40; ++colour) {
    const std::string name = std::to_string(colour);
    for (const auto& [drawing, selector] :
         {std::pair(&page, "svg .s" + name + " {"), std::pair(&sheet, "\n.s" + name + " {")}) {
      const bool is_used = drawing->contains("class=\"line s" + name + "\"");
      EXPECT_EQ(is_used, drawing->contains(selector)) << name;
      EXPECT_EQ(is_used, drawing->contains("class=\"band b" + name + "\"")) << name;
    }
  }
}

TEST(AxisScale, LinearAxesBeginAtZeroAndEndRound) {
  const AxisScale scale(AxisScale::Kind::kLinearFromZero, {3, 87, 42});
  EXPECT_THAT(scale.ticks(), ::testing::ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_DOUBLE_EQ(scale.position(0), 0);
  EXPECT_DOUBLE_EQ(scale.position(50), 0.5);
  EXPECT_DOUBLE_EQ(AxisScale(AxisScale::Kind::kLinearFromZero, {}).position(0.5), 0.5);
  EXPECT_DOUBLE_EQ(AxisScale(AxisScale::Kind::kLinearFromZero, {0, 0}).position(0), 0);
}

TEST(AxisScale, AxesWithZeroGoBelowItIfValuesDo) {
  const AxisScale scale(AxisScale::Kind::kLinearWithZero, {-35, 12});
  EXPECT_THAT(scale.ticks(), ::testing::ElementsAre(-40, -30, -20, -10, 0, 10, 20));
  EXPECT_DOUBLE_EQ(scale.position(-40), 0);
  EXPECT_DOUBLE_EQ(scale.position(20), 1);
  EXPECT_NEAR(scale.position(0), 2.0 / 3, 1e-12);
  EXPECT_TRUE(scale.goes_below_zero());
  const AxisScale negative(AxisScale::Kind::kLinearWithZero, {-35, -12});
  EXPECT_DOUBLE_EQ(negative.ticks().back(), 0);
  const AxisScale positive(AxisScale::Kind::kLinearWithZero, {5, 9});
  EXPECT_DOUBLE_EQ(positive.ticks().front(), 0);
  EXPECT_FALSE(positive.goes_below_zero());
  EXPECT_FALSE(AxisScale(AxisScale::Kind::kLinearWithZero, {}).ticks().empty());
  EXPECT_LE(AxisScale(AxisScale::Kind::kLinearWithZero, {-1e9, 1e-9}).ticks().size(), 90U);
}

TEST(SvgPlot, AChangeHasALineAtZeroAndItsBandBelow) {
  Plot plot{.title = "c", .x_title = "x", .y_title = "y", .y_kind = AxisScale::Kind::kLinearWithZero, .series = {}};
  plot.series.push_back({.name = "s", .points = {{1, -10, "a", -30, 5}, {2, -12, "b", -20, -4}}});
  const std::string svg = render_svg(plot);
  EXPECT_EQ(nesting_error(svg), "");
  EXPECT_EQ(count_of(svg, "<line class=\"base\""), 2U);
  EXPECT_THAT(svg, HasSubstr(">-30</text>"));
  plot.y_kind = AxisScale::Kind::kLinearFromZero;
  EXPECT_EQ(count_of(render_svg(plot), "<line class=\"base\""), 1U);
}

TEST(AxisScale, LogarithmicAxesEncloseTheValuesInOneTwoFive) {
  const AxisScale scale(AxisScale::Kind::kLogarithmic, {30, 400, 0, -1});
  EXPECT_THAT(scale.ticks(), ::testing::ElementsAre(20, 50, 100, 200, 500));
  EXPECT_DOUBLE_EQ(scale.position(100), 0.5);
  EXPECT_DOUBLE_EQ(scale.position(-5), 0);
  for (const double only : {1.0, 7.0, 1e-6, 4e12}) {
    const AxisScale narrow(AxisScale::Kind::kLogarithmic, {only});
    ASSERT_GE(narrow.ticks().size(), 2U) << only;
    EXPECT_LE(narrow.ticks().front(), only);
    EXPECT_GE(narrow.ticks().back(), only * (1 - 1e-12));
  }
  EXPECT_LE(AxisScale(AxisScale::Kind::kLogarithmic, {1e-6, 4e12}).ticks().size(), 40U);
}

}  // namespace
}  // namespace kvist::render::svg_plot_test
