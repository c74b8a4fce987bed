#include "kvist/analysis/exact_percentiles.h"

#include <gtest/gtest.h>

#include "analysis/sample_run.h"

namespace kvist::analysis::exact_percentiles_test {
namespace {

/// 40 chains of four requests with a speed of their own, as conversations of four turns or as a trace has them.
results::LevelRecord chains(bool of_a_trace) {
  results::LevelRecord level;
  level.seed = 5;
  level.measure_to = at_ms(1'000'000);
  for (std::uint32_t i = 0; i < 160; ++i) {
    workload::TurnSample turn = turn_sent_at(100 * i, 50 + 7 * (i / 4) + i % 4, {10, 10});
    const ConversationId first(i / 4 * 4);
    turn.conversation = of_a_trace ? ConversationId(i) : first;
    turn.turn = of_a_trace ? 0 : i % 4;
    if (of_a_trace) turn.session = first;
    level.turns.push_back(std::move(turn));
  }
  return level;
}

TEST(BootstrapPercentiles, OfATraceResampleItsSessions) {
  EXPECT_EQ(bootstrap_percentiles(chains(true)), bootstrap_percentiles(chains(false)));
  results::LevelRecord apart = chains(true);
  for (workload::TurnSample& turn : apart.turns) turn.session.reset();
  EXPECT_NE(bootstrap_percentiles(apart), bootstrap_percentiles(chains(false)));
}

}  // namespace
}  // namespace kvist::analysis::exact_percentiles_test
