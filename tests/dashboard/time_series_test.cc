// Figures over time: resolutions, holes, and a day of seconds in bounded memory.
#include "kvist/dashboard/time_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

namespace kvist::dashboard::time_series_test {
namespace {

using Row = std::vector<std::optional<double>>;

TEST(TimeSeries, RecentSecondsAreAsTheyWere) {
  TimeSeries series(2);
  series.add(100, Row{1, std::nullopt});
  series.add(101, Row{2, 20});
  series.add(103, Row{4, 40});
  const SeriesView view = series.read(60, 100);
  EXPECT_EQ(view.step_s, 1);
  EXPECT_EQ(view.at_s, (std::vector<std::int64_t>{100, 101, 102, 103}));
  EXPECT_EQ(view.columns[0][0], 1);
  EXPECT_EQ(view.columns[0][3], 4);
  EXPECT_TRUE(std::isnan(view.columns[0][2])) << "second 102 was missed";
  EXPECT_TRUE(std::isnan(view.columns[1][0])) << "unknown is not 0";
  EXPECT_EQ(view.columns[1][1], 20);
}

TEST(TimeSeries, ACoarserStepIsTheMeanOfWhatIsKnown) {
  TimeSeries series(1);
  for (int second = 0; second < 40; ++second)
    series.add(1'000 + second, Row{second % 2 == 0 ? std::optional<double>(second) : std::nullopt});
  const SeriesView view = series.read(40, 10);
  EXPECT_EQ(view.step_s, 10);
  EXPECT_EQ(view.at_s, (std::vector<std::int64_t>{1'000, 1'010, 1'020, 1'030}));
  EXPECT_FLOAT_EQ(view.columns[0][0], 4);   // 0, 2, 4, 6, 8
  EXPECT_FLOAT_EQ(view.columns[0][3], 34);  // 30 to 38
}

TEST(TimeSeries, SecondsThatGoBackAreLeftOut) {
  TimeSeries series(1);
  series.add(10, Row{1});
  series.add(10, Row{2});
  series.add(9, Row{3});
  const SeriesView view = series.read(60, 60);
  EXPECT_EQ(view.at_s, std::vector<std::int64_t>{10});
  EXPECT_EQ(view.columns[0][0], 1);
}

TEST(TimeSeries, ADayStaysInTheMemoryThatItBeganWith) {
  TimeSeries series(18);
  const std::size_t before = series.bytes();
  EXPECT_LE(before, TimeSeries::bytes_of(18));
  Row row(18);
  for (std::int64_t second = 0; second < 26 * 3'600; ++second) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(second % 1'000) + static_cast<double>(i);
    series.add(1'800'000'000 + second, row);
  }
  EXPECT_EQ(series.bytes(), before);
  const SeriesView day = series.read(86'400, 4'800);
  EXPECT_EQ(day.step_s, 60);
  EXPECT_EQ(day.at_s.size(), 1'440U);
  EXPECT_FLOAT_EQ(day.columns[17].back() - day.columns[0].back(), 17);
  const SeriesView hours = series.read(14'400, 4'800);
  EXPECT_EQ(hours.step_s, 10);
  EXPECT_EQ(hours.at_s.size(), 1'440U);
  const SeriesView recent = series.read(1'800, 1'800);
  EXPECT_EQ(recent.step_s, 1);
  EXPECT_EQ(recent.at_s.size(), 1'800U);
  EXPECT_EQ(recent.at_s.back(), 1'800'000'000 + (26 * 3'600) - 1);
}

TEST(TimeSeries, AHoleLongerThanTheRingShowsNothingOfBefore) {
  TimeSeries series(1);
  series.add(100, Row{1});
  series.add(100 + 1'800, Row{2});  // the same place in the ring of seconds
  const SeriesView view = series.read(1'800, 1'800);
  EXPECT_EQ(view.at_s, std::vector<std::int64_t>{1'900});
}

}  // namespace
}  // namespace kvist::dashboard::time_series_test
