#include "kvist/report/levels_csv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/sample_run.h"
#include "kvist/analysis/headline.h"

namespace kvist::report::levels_csv_test {
namespace {

std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
  }
  return rows;
}

TEST(LevelsCsv, HasALinePerLevelAndThreeCellsPerFigure) {
  const analysis::RunAnalysis analysis(analysis::sample_run(), analysis::sample_sweep());
  const auto rows = rows_of(levels_csv(analysis));
  const auto& figures = analysis::headline_figures();
  ASSERT_EQ(rows.size(), analysis.levels().size() + 1);
  ASSERT_GT(rows.size(), 2U);
  for (std::size_t i = 0; i < analysis.levels().size(); ++i) {
    const analysis::MeasuredLevel& level = analysis.levels()[i];
    const std::vector<std::string>& row = rows[i + 1];
    ASSERT_EQ(row.size(), 4 + 3 * figures.size());
    EXPECT_EQ(row[0], spec::to_string(level.record.mode));
    EXPECT_EQ(row[1], std::to_string(level.record.concurrency));
    for (std::size_t f = 0; f < figures.size(); ++f) {
      EXPECT_EQ(rows[0][4 + 3 * f], figures[f].key);
      const analysis::Estimate estimate = analysis::estimate_of(level, figures[f]);
      ASSERT_EQ(row[4 + 3 * f].empty(), !estimate.value) << figures[f].key;
      if (estimate.value) {
        EXPECT_NEAR(std::stod(row[4 + 3 * f]), *estimate.value, 1e-5 * std::abs(*estimate.value) + 1e-9);
      }
      ASSERT_EQ(row[5 + 3 * f].empty(), !estimate.interval) << figures[f].key;
      if (estimate.interval) {
        EXPECT_LE(std::stod(row[5 + 3 * f]), std::stod(row[6 + 3 * f]));
      }
    }
  }
}

}  // namespace
}  // namespace kvist::report::levels_csv_test
