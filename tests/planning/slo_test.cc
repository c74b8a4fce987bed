#include "kvist/planning/slo.h"

#include <fmt/format.h>
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

TEST(Slo, ReadsEveryObjectiveInTheUnitOfItsFigure) {
  const auto slo = parse_slo("ttft_p50=250ms, ttft_p95=0.6s,tpot_p95=60ms,latency_p95=1 min,error=1%");
  ASSERT_TRUE(slo) << slo.error().message;
  EXPECT_THAT(*slo, ElementsAre(Objective{Headline::kTtftP50, 250}, Objective{Headline::kTtftP95, 600},
                                Objective{Headline::kTpotP95, 60}, Objective{Headline::kLatencyP95, 60'000},
                                Objective{Headline::kErrorPct, 1}));
}

TEST(Slo, ItsTextReadsBack) {
  const Slo slo = *parse_slo("ttft_p95=600ms,tpot_p50=31.5ms,error=0.5%");
  EXPECT_EQ(to_string(slo), "ttft_p95=600ms,tpot_p50=31.5ms,error=0.5%");
  EXPECT_EQ(*parse_slo(to_string(slo)), slo);
  EXPECT_EQ(to_string(slo[0]), "TTFT p95 <= 600 ms");
}

TEST(Slo, KnowsEveryFigureOfAReportWithItsDirection) {
  for (std::size_t i = 0; i < spec::kFigures; ++i) {
    const auto figure = static_cast<Headline>(i);
    const std::string_view unit = analysis::headline(figure).unit;
    const std::string_view value = unit == "%" ? "7%" : unit.ends_with("/s") ? "7" : "7ms";
    const auto by_key = parse_slo(fmt::format("{}={}", spec::kFigureKeys[i], value));
    ASSERT_TRUE(by_key) << by_key.error().message;
    EXPECT_THAT(*by_key, ElementsAre(Objective{figure, 7}));
    EXPECT_EQ(*parse_slo(to_string(*by_key)), *by_key);
  }
  const Slo slo = *parse_slo("itl_p99<=80ms, goodput_per_s >= 12.5,kv_hit_rate=60%,good>=95%,latency_p95=60s");
  EXPECT_EQ(to_string(slo), "itl_p99=80ms,goodput_per_s=12.5,kv_hit_rate=60%,good=95%,latency_p95=60000ms");
  EXPECT_EQ(to_string(slo[1]), "Good turns/s >= 12.5");
  EXPECT_EQ(to_string(slo[2]), "Cache hit rate >= 60 %");
  EXPECT_EQ(to_string(slo[4]), "Latency p95 <= 60 s");
  EXPECT_TRUE(slo[0].allows(80) && slo[0].allows(79) && !slo[0].allows(80.1));
  EXPECT_TRUE(slo[1].allows(12.5) && slo[1].allows(13) && !slo[1].allows(12.4));
}

TEST(Slo, RefusesFiguresThatNoLevelCanHave) {
  spec::SweepSpec sweep;
  const auto refusal = [&](std::string_view slo) {
    const auto measurable = check_measurable(*parse_slo(slo), sweep);
    return measurable ? "none" : measurable.error().message;
  };
  EXPECT_THAT(refusal("ttft_p95=1s,good=90%"), HasSubstr("good_pct needs the limits of a good turn: method.goodput"));
  EXPECT_THAT(refusal("ttft_from_schedule_p95=1s"), HasSubstr("needs turns that are due by a schedule"));
  EXPECT_EQ(refusal("itl_p99=1s"), "none");
  sweep.method.goodput.ttft = std::chrono::seconds(1);
  sweep.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  EXPECT_EQ(refusal("good=90%,ttft_from_schedule_p95=1s"), "none");
  EXPECT_TRUE(needs_gaps(*parse_slo("itl_p50=1s")));
  EXPECT_FALSE(needs_gaps(*parse_slo("tpot_p50=1s")));
}

TEST(Slo, ErrorsNameThePartAndWhatWouldBeRight) {
  EXPECT_THAT(error_of(""), HasSubstr("expected NAME=LIMIT"));
  EXPECT_THAT(error_of("ttft_p95"), HasSubstr("\"ttft_p95\": expected NAME=LIMIT, such as ttft_p95=600ms"));
  EXPECT_THAT(error_of("ttft_p90=1s"), HasSubstr("no objective \"ttft_p90\"; there are ttft_p50, ttft_p95, ttft_p99"));
  EXPECT_THAT(error_of("ttft_p95>=1s"), HasSubstr("less of this figure is better"));
  EXPECT_THAT(error_of("turns_per_s<=3"), HasSubstr("more of this figure is better"));
  EXPECT_THAT(error_of("turns_per_s<3"), HasSubstr("expected =, <= or >="));
  EXPECT_THAT(error_of("turns_per_s=0"), HasSubstr("expected a number above 0 per second"));
  EXPECT_THAT(error_of("turns_per_s=3ms"), HasSubstr("expected a number above 0 per second"));
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
              ElementsAre(Objective{Headline::kTpotP95, 60}, Objective{Headline::kErrorPct, 5}));
  EXPECT_THAT(with_error_limit(*parse_slo("error=1%"), 5), ElementsAre(Objective{Headline::kErrorPct, 1}));
}

}  // namespace
}  // namespace kvist::planning::slo_test
