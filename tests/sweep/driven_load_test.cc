#include "kvist/sweep/driven_load.h"

#include <gtest/gtest.h>

namespace kvist::sweep::driven_load_test {
namespace {

TimePoint at_ms(std::int64_t ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

TEST(DrivenLoad, CountsWhatHappenedWithinTheTime) {
  workload::TurnSample turn;
  turn.first_token = at_ms(990);
  turn.chunks = 4;
  turn.gaps_ms = {20, 20, 2'000};
  turn.ended = at_ms(3'030);
  workload::TurnSample silent;
  silent.ended = at_ms(1'500);
  workload::TurnSample whole = turn;
  whole.first_token = at_ms(1'000);
  whole.ended = at_ms(3'000);
  whole.gaps_ms = {10, 10, 10};
  const loadgen::DrivenLoad load = driven_load({turn, silent, whole}, at_ms(1'000), at_ms(3'000));
  EXPECT_DOUBLE_EQ(load.events_per_s.value(), (2 + 4) / 2.0);
  EXPECT_DOUBLE_EQ(load.turns_per_s.value(), 1 / 2.0);
  EXPECT_FALSE(load.streams.has_value());
  EXPECT_FALSE(driven_load({turn}, at_ms(5), at_ms(5)).events_per_s.has_value());
}

}  // namespace
}  // namespace kvist::sweep::driven_load_test
