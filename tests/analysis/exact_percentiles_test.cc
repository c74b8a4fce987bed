#include "kvist/analysis/exact_percentiles.h"

#include <gtest/gtest.h>

#include "analysis/sample_run.h"
#include "kvist/base/random.h"

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

/// 1,000 conversations of one turn, each as slow as its fiftieth of the time was: what a queue makes of them.
results::LevelRecord queued() {
  results::LevelRecord level;
  level.seed = 5;
  level.measure_to = at_ms(100'000);
  RandomStream random(11);
  double queue_ms = 0;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    if (i % 20 == 0) queue_ms = 300 * random.uniform();
    workload::TurnSample turn = turn_sent_at(100 * i, static_cast<int>(100 + queue_ms), {10, 10});
    turn.conversation = ConversationId(i);
    level.turns.push_back(std::move(turn));
  }
  return level;
}

double width_of(const std::optional<Interval>& interval) {
  return interval.value().high - interval.value().low;
}

TEST(BootstrapPercentiles, TurnsThatWaitInOneQueueAreNotIndependent) {
  const ResampledPercentile p50 = bootstrap_percentiles(queued())[static_cast<std::size_t>(ExactPercentile::kTtftP50)];
  EXPECT_GT(width_of(interval_of(p50.by_time)), 2 * width_of(interval_of(p50.by_conversation)));
  EXPECT_EQ(interval_of(p50).value(), interval_of(p50.by_time).value()) << "the wider one contains the other";
}

TEST(BootstrapPercentiles, OfFewConversationsTimeAloneSaysNothing) {
  results::LevelRecord level = queued();
  for (workload::TurnSample& turn : level.turns) turn.conversation = ConversationId(turn.conversation.value() % 9);
  const ResampledPercentile p50 = bootstrap_percentiles(level)[static_cast<std::size_t>(ExactPercentile::kTtftP50)];
  EXPECT_FALSE(p50.by_time.empty());
  EXPECT_FALSE(interval_of(p50).has_value());
}

}  // namespace
}  // namespace kvist::analysis::exact_percentiles_test
