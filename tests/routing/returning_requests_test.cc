#include "kvist/routing/returning_requests.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kvist/base/random.h"

namespace kvist::routing::returning_requests_test {
namespace {

using std::chrono::milliseconds;

// 30 that come at once are one per second on average.
ReturningRequests thirty(double saved_ms, TimePoint now) {
  ReturningRequests returning;
  for (int i = 0; i < 30; ++i) returning.add(saved_ms, now);
  return returning;
}

TEST(ReturningRequests, NobodyIsHeldUpWhereNobodyComes) {
  EXPECT_EQ(ReturningRequests().held_up_ms(1'000, 10'000, TimePoint(milliseconds(5))), 0);
}

TEST(ReturningRequests, WhoComesWaitsForTheRest) {
  const TimePoint now(milliseconds(1'000));
  EXPECT_NEAR(thirty(9'000, now).held_up_ms(0, 4'000, now), 8'000, 1e-6) << "four come and wait 2 s on average";
  EXPECT_NEAR(thirty(9'000, now).held_up_ms(2'000, 4'000, now), 16'000, 1e-6)
      << "two more would have waited, 4 s longer now";
}

TEST(ReturningRequests, NobodyLosesMoreThanTheCacheSaves) {
  const TimePoint now(milliseconds(1'000));
  EXPECT_NEAR(thirty(1'000, now).held_up_ms(0, 10'000, now), 9'500, 1e-6) << "the last of ten waits, the others leave";
  EXPECT_NEAR(thirty(1'000, now).held_up_ms(5'000, 10'000, now), 10'000, 1e-6) << "they would have left anyway";
}

TEST(ReturningRequests, AreForgotten) {
  const TimePoint now(milliseconds(1'000));
  const ReturningRequests returning = thirty(1'000, now);
  const double soon = returning.held_up_ms(0, 500, now);
  EXPECT_NEAR(returning.held_up_ms(0, 500, now + ReturningRequests::kMemory), soon / std::exp(1), 1e-9);
}

// The closed form against the requests one by one.
TEST(ReturningRequests, AgreesWithTheSumOverThoseWhoCome) {
  const std::uint64_t seed = 20261123;
  RandomStream random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](std::int64_t most) { return static_cast<double>(random.uniform_int(1, most)); };
    const double saved = draw(5'000), queue = draw(5'000), prefill = draw(20'000);
    const TimePoint now(milliseconds(7));
    double sum = 0;
    for (double at = 0.5; at < queue + prefill; ++at) {  // one per millisecond
      const double before = std::min(std::max(0.0, queue - at), saved);
      sum += std::min(queue + prefill - at, saved) - before;
    }
    EXPECT_NEAR(thirty(saved, now).held_up_ms(queue, prefill, now) * 1'000, sum, 1e-3 * sum + 10)
        << "seed " << seed << ", round " << round << ": " << saved << ", " << queue << ", " << prefill;
  }
}

}  // namespace
}  // namespace kvist::routing::returning_requests_test
