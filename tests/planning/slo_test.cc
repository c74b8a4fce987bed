#include "kvist/planning/slo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::planning::slo_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const auto slo = parse_slo(text);
  return slo ? "no error" : slo.error().message;
}

TEST(Slo, ReadsEveryObjectiveInTheUnitOfItsMetric) {
  const auto slo = parse_slo("ttft_p50=250ms, ttft_p95=0.6s,tpot_p95=60ms,latency_p95=1 min,error=1%");
  ASSERT_TRUE(slo) << slo.error().message;
  EXPECT_THAT(*slo, ElementsAre(Objective{Metric::kTtftP50, 250}, Objective{Metric::kTtftP95, 600},
                                Objective{Metric::kTpotP95, 60}, Objective{Metric::kLatencyP95, 60'000},
                                Objective{Metric::kErrorPct, 1}));
}

TEST(Slo, ItsTextReadsBack) {
  const Slo slo = *parse_slo("ttft_p95=600ms,tpot_p50=31.5ms,error=0.5%");
  EXPECT_EQ(to_string(slo), "ttft_p95=600ms,tpot_p50=31.5ms,error=0.5%");
  EXPECT_EQ(*parse_slo(to_string(slo)), slo);
  EXPECT_EQ(to_string(slo[0]), "TTFT p95 <= 600 ms");
}

TEST(Slo, ErrorsNameThePartAndWhatWouldBeRight) {
  EXPECT_THAT(error_of(""), HasSubstr("expected NAME=LIMIT"));
  EXPECT_THAT(error_of("ttft_p95"), HasSubstr("\"ttft_p95\": expected NAME=LIMIT, such as ttft_p95=600ms"));
  EXPECT_THAT(error_of("ttft_p99=1s"), HasSubstr("no objective \"ttft_p99\"; there are ttft_p50, ttft_p95, tpot_p50"));
  EXPECT_THAT(error_of("ttft_p95=600"), HasSubstr("expected a duration above 0 with its unit"));
  EXPECT_THAT(error_of("ttft_p95=0ms"), HasSubstr("expected a duration above 0"));
  EXPECT_THAT(error_of("ttft_p95=-5ms"), HasSubstr("expected a duration above 0"));
  EXPECT_THAT(error_of("ttft_p95=[1ms]"), HasSubstr("expected a duration above 0"));
  EXPECT_THAT(error_of("error=1"), HasSubstr("expected a percentage from 0% to 100%"));
  EXPECT_THAT(error_of("error=101%"), HasSubstr("expected a percentage from 0% to 100%"));
  EXPECT_THAT(error_of("tpot_p95=60ms,tpot_p95=50ms"), HasSubstr("\"tpot_p95=50ms\": this objective is given twice"));
  EXPECT_THAT(error_of("tpot_p95=60ms,"), HasSubstr("expected NAME=LIMIT"));
  EXPECT_THAT(error_of(std::string(2'000, 'x')), HasSubstr("longer than 1,024"));
}

TEST(Slo, AlwaysLimitsErrors) {
  EXPECT_THAT(with_error_limit(*parse_slo("tpot_p95=60ms"), 5),
              ElementsAre(Objective{Metric::kTpotP95, 60}, Objective{Metric::kErrorPct, 5}));
  EXPECT_THAT(with_error_limit(*parse_slo("error=1%"), 5), ElementsAre(Objective{Metric::kErrorPct, 1}));
}

}  // namespace
}  // namespace kvist::planning::slo_test
