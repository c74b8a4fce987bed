#include "kvist/planning/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace kvist::planning::memory_report_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A replica of the published plan: two H100, Llama 70B with an 8B drafter, 0.85.
spec::WorkerSpec published_replica() {
  spec::WorkerSpec worker;
  worker.profile = spec::ProfileSpec{};
  worker.profile->gpu = "h100";
  worker.profile->tensor_parallel = 2;
  worker.profile->memory_fraction = 0.85;
  worker.max_num_tokens = 16'384;
  worker.speculation.enabled = true;
  worker.speculation.drafter = "llama-3.1-8b-fp8";
  return worker;
}

MemoryReport report_of(const spec::WorkerSpec& worker, const MemoryQuestion& question = {}) {
  auto report = make_memory_report(worker, question);
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  return *report;
}

std::vector<double> gigabytes(const std::vector<BudgetLine>& lines) {
  std::vector<double> values;
  for (const BudgetLine& line : lines) values.push_back(std::round(line.bytes / 1e8) / 10);
  return values;
}

TEST(MemoryReport, GivesTheBudgetOfThePublishedPlan) {
  const MemoryReport report = report_of(published_replica());
  EXPECT_THAT(gigabytes(report.planned), ElementsAre(68.0, -35.0, -4.0, -5.0, 24.0));
  EXPECT_EQ(report.planned_kv_bytes, 24e9);
}

TEST(MemoryReport, FindsTheOnlyAssumptionUnderWhich53SequencesHold) {
  const MemoryReport report = report_of(published_replica());
  std::vector<std::string> found;
  for (const SequenceAssumption& a : report.assumptions) {
    if (!a.holds()) continue;
    EXPECT_EQ(a.dtype, spec::KvDtype::kFp8);
    EXPECT_TRUE(a.counts_drafter);
    EXPECT_TRUE(a.is_split);
    found.insert(found.end(), a.lengths.begin(), a.lengths.end());
  }
  // 24e9 B / (3,940 tokens x 114,688 B) = 53.1; with the longest answer of 1,024 tokens it is 50.
  EXPECT_THAT(found, ElementsAre("prompt and mean answer"));
  const auto length = std::ranges::find(report.lengths, "prompt and mean answer", &SequenceLength::label);
  ASSERT_NE(length, report.lengths.end());
  EXPECT_EQ(length->tokens, 3'940U);
  EXPECT_EQ(length->planned, 53U);
  EXPECT_EQ(std::ranges::find(report.lengths, "prompt and longest answer", &SequenceLength::label)->planned, 50U);
  EXPECT_THAT(render_table(report), HasSubstr("24,000,000,000 B / (3,940 x 114,688 B) = 53.1"));
}

TEST(MemoryReport, TheRangeOfAnAssumptionIsExact) {
  const MemoryReport report = report_of(published_replica());
  for (const SequenceAssumption& a : report.assumptions) {
    const auto sequences = [&](double tokens) {
      return std::floor(report.planned_kv_bytes / (tokens * a.bytes_per_token));
    };
    EXPECT_EQ(sequences(a.most_tokens * (1 - 1e-9)), 53);
    EXPECT_EQ(sequences(a.most_tokens * (1 + 1e-9)), 52);
    EXPECT_EQ(sequences(a.least_tokens * (1 + 1e-9)), 53);
    EXPECT_EQ(sequences(a.least_tokens * (1 - 1e-9)), 54);
  }
}

TEST(MemoryReport, NamesTheFractionThatFitsALargerWorstStep) {
  spec::WorkerSpec worker = published_replica();
  EXPECT_EQ(report_of(worker).out_of_memory, "");
  worker.profile->set = {{"memory.activation_peak", 3.8}};
  const MemoryReport report = report_of(worker);
  EXPECT_THAT(report.out_of_memory, AllOf(HasSubstr("would run out of memory"), HasSubstr("0.80 fits")));
  EXPECT_EQ(report.fraction_that_fits, 0.80);
  for (const FractionRow& row : report.fractions) EXPECT_EQ(row.fits, row.fraction < 0.825) << row.fraction;
  EXPECT_THAT(render_table(report), HasSubstr("a memory fraction of 0.80 fits"));
}

TEST(MemoryReport, TheProfilesBudgetAddsUp) {
  for (const auto meaning : {spec::MemoryMeaning::kOfTotal, spec::MemoryMeaning::kOfFree}) {
    spec::WorkerSpec worker = published_replica();
    worker.profile->memory_meaning = meaning;
    const MemoryReport report = report_of(worker);
    double left = 0;
    for (std::size_t i = 0; i + 1 < report.profiled.size(); ++i) left += report.profiled[i].bytes;
    EXPECT_NEAR(left, report.profiled.back().bytes, 1);
    EXPECT_NEAR(left, report.plan.kv_bytes, 1);
  }
}

TEST(MemoryReport, AWorkerWithoutDrafterOrWithOneGpuHasFewerAssumptions) {
  spec::WorkerSpec worker = published_replica();
  worker.speculation.enabled = false;
  EXPECT_EQ(report_of(worker).assumptions.size(), 4U);
  worker.profile->tensor_parallel = 1;
  worker.profile->gpu = "h200";
  EXPECT_EQ(report_of(worker).assumptions.size(), 2U);
  EXPECT_THAT(render_table(report_of(worker)), Not(HasSubstr("drafter")));
}

TEST(MemoryReport, JsonHoldsTheSameFigures) {
  const std::string json = render_json(report_of(published_replica()));
  EXPECT_THAT(json, AllOf(HasSubstr("\"planned_kv_bytes\": 24000000000"), HasSubstr("\"sequences\": 53"),
                          HasSubstr("\"label\": \"prompt and mean answer\""), HasSubstr("\"out_of_memory\": null")));
  EXPECT_THAT(json, AllOf(HasSubstr("\"memory_meaning\": \"of_free\""), HasSubstr("\"name\": \"memory.context\"")));
}

TEST(MemoryReport, ErrorsNameTheSettingToWrite) {
  const auto none = make_memory_report(spec::WorkerSpec{});
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("has no profile"), HasSubstr("tensor_parallel")));
  spec::WorkerSpec worker = published_replica();
  worker.profile->gpu = "b200";
  const auto unknown = make_memory_report(worker);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message, HasSubstr("h100, h200"));
}

}  // namespace
}  // namespace kvist::planning::memory_report_test
