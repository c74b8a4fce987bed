#include "kvist/routing/prefill_queue.h"

#include <gtest/gtest.h>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

using std::chrono::milliseconds;

/// One millisecond per uncached token.
double prefill_ms(const PrefillWork& work) {
  return work.uncached;
}

TimePoint at(int ms) {
  return TimePoint(std::chrono::seconds(100)) + milliseconds(ms);
}

double wait_ms(const PrefillQueue& queue, int now, double way_out_ms = 0) {
  return queue.wait_ms(at(now), way_out_ms, prefill_ms);
}

TEST(PrefillQueue, IsTheSumOfItsPromptsWhenTheyComeAtOnce) {
  PrefillQueue queue;
  EXPECT_DOUBLE_EQ(wait_ms(queue, 0), 0);
  for (std::uint64_t i = 1; i <= 3; ++i) queue.push(RequestId(i), {.uncached = 100}, at(0));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 0), 300);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 40), 260);
  EXPECT_DOUBLE_EQ(queue.total_ms(prefill_ms), 300);
}

TEST(PrefillQueue, APromptBeginsWhenTheOneBeforeItWasComputed) {
  PrefillQueue queue;
  queue.push(RequestId(1), {.uncached = 1'000}, at(0));
  queue.push(RequestId(2), {.uncached = 400}, at(100));
  queue.on_first_token(RequestId(1), at(1'300));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'300), 400);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'300, 50), 350) << "the first was computed 50 ms before that was seen";
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'500), 200);
}

// The case for which this class was made: a worker in the middle of a long prompt must not look free.
TEST(PrefillQueue, OneThatTakesLongerHoldsUpThoseBehindIt) {
  PrefillQueue queue;
  queue.push(RequestId(1), {.uncached = 1'000}, at(0));
  queue.push(RequestId(2), {.uncached = 400}, at(0));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'700), 400);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 2'000), 400);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 2'300), 100) << "an answer that is no stream shows no first token";
}

TEST(PrefillQueue, AnEndAndAShorterPromptThatOvertakesAreTakenOut) {
  PrefillQueue queue;
  queue.push(RequestId(1), {.uncached = 1'000}, at(0));
  queue.push(RequestId(2), {.uncached = 10}, at(0));
  queue.push(RequestId(3), {.uncached = 300}, at(0));
  EXPECT_TRUE(queue.erase(RequestId(1)));
  EXPECT_FALSE(queue.erase(RequestId(1)));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 0), 310);
  queue.on_first_token(RequestId(3), at(200));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 200), 10);
  queue.on_first_token(RequestId(9), at(900));
  EXPECT_EQ(queue.last_first_token(), at(200)) << "of a request that is not in it";
}

TEST(PrefillQueue, APromptThatWaitsForASlotBeginsThen) {
  PrefillQueue queue;
  queue.push(RequestId(1), {.uncached = 100}, at(5'000));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 0), 5'100);
}

// For any sequence of calls, the wait is never below 0 and never more than all prompts after the latest of them.
TEST(PrefillQueue, StaysWithinWhatItsPromptsTake) {
  const std::uint64_t seed = 20261123;
  RandomStream random(seed);
  PrefillQueue queue;
  std::vector<std::uint64_t> inside;
  std::uint64_t last = 0;
  for (int now = 0; now < 20'000; now += 7) {
    if (random.uniform() < 0.3) {
      queue.push(RequestId(++last), {.uncached = static_cast<double>(random.uniform_int(1, 500))}, at(now));
      inside.push_back(last);
    }
    if (!inside.empty() && random.uniform() < 0.25) {
      const auto which = static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(inside.size()) - 1));
      queue.on_first_token(RequestId(inside[which]), at(now));
      inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(which));
    }
    const double wait = wait_ms(queue, now, 20);
    ASSERT_GE(wait, 0) << "seed " << seed << " at " << now;
    ASSERT_LE(wait, queue.total_ms(prefill_ms) + 1e-6) << "seed " << seed << " at " << now;
  }
}

}  // namespace
}  // namespace kvist::routing
