#include "kvist/routing/prefill_queue.h"

#include <gtest/gtest.h>

#include "kvist/base/random.h"

namespace kvist::routing::prefill_queue_test {
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
  for (std::uint64_t i = 1; i <= 3; ++i)
    queue.push({.request = RequestId(i), .ready = at(0), .work = {.uncached = 100}});
  EXPECT_DOUBLE_EQ(wait_ms(queue, 0), 300);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 40), 260);
  EXPECT_DOUBLE_EQ(queue.total_ms(prefill_ms), 300);
}

TEST(PrefillQueue, APromptBeginsWhenTheOneBeforeItWasComputed) {
  PrefillQueue queue;
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 1'000}});
  queue.push({.request = RequestId(2), .ready = at(100), .work = {.uncached = 400}});
  queue.on_first_token(RequestId(1), at(1'300));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'300), 400);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'300, 50), 350) << "the first was computed 50 ms before that was seen";
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'500), 200);
}

// The case for which this class was made: a worker in the middle of a long prompt must not look free.
TEST(PrefillQueue, OneThatTakesLongerHoldsUpThoseBehindIt) {
  PrefillQueue queue;
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 1'000}});
  queue.push({.request = RequestId(2), .ready = at(0), .work = {.uncached = 400}});
  EXPECT_DOUBLE_EQ(wait_ms(queue, 900), 500);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'300), 100) << "an answer that is no stream shows no first token";
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'700), 0);
}

TEST(PrefillQueue, SaysWhenAPromptIsComputed) {
  PrefillQueue queue;
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 1'000}});
  queue.push({.request = RequestId(2), .ready = at(0), .work = {.uncached = 400}, .streams = true});
  queue.push({.request = RequestId(3), .ready = at(0), .work = {.uncached = 50}});
  const auto computed_at = [&](std::uint64_t request, int now) {
    return queue.computed_at(RequestId(request), at(now), 0, prefill_ms);
  };
  EXPECT_EQ(computed_at(1, 0), at(1'000));
  EXPECT_EQ(computed_at(1, 5'000), at(1'000)) << "nobody would see it";
  EXPECT_EQ(computed_at(2, 0), at(1'400));
  EXPECT_EQ(computed_at(3, 0), at(1'450));
  EXPECT_EQ(computed_at(3, 2'000), at(2'050)) << "the stream's first token would have been seen";
  EXPECT_EQ(computed_at(4, 0), TimePoint()) << "it is not here";
}

TEST(PrefillQueue, BeginsAfterAPromptThatWasComputedUnseen) {
  PrefillQueue queue;
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 1'000}});
  queue.push({.request = RequestId(2), .ready = at(0), .work = {.uncached = 400}});
  queue.on_computed(RequestId(1), at(1'100));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'200), 300);
  queue.on_computed_by(at(1'150));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'200), 350);
  queue.on_computed(RequestId(9), at(9'000));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 1'200), 350) << "of a request that is not in it";
  EXPECT_DOUBLE_EQ(queue.work().uncached, 400);
}

// CostFloor keeps the outline while time goes on.
TEST(PrefillQueue, ItsOutlineBoundsTheWaitFromBelowAtAnyTime) {
  const std::uint64_t seed = 20261128;
  RandomStream random(seed);
  std::size_t tight = 0;
  for (int round = 0; round < 400; ++round) {
    PrefillQueue queue;
    int ready = 0;
    for (std::uint64_t i = 1; i <= 6; ++i) {
      ready += static_cast<int>(random.uniform_int(0, 300));
      queue.push({.request = RequestId(i),
                  .ready = at(ready),
                  .work = {.uncached = static_cast<double>(random.uniform_int(1, 500))},
                  .streams = random.uniform() < 0.5});
      if (random.uniform() < 0.2) queue.on_computed(RequestId(i), at(ready + 10));
    }
    if (random.uniform() < 0.5) queue.on_first_token(RequestId(1), at(ready));
    if (random.uniform() < 0.3) queue.on_first_token(RequestId(3), at(ready));  // which passes some
    const PrefillQueue::Outline outline = queue.outline();
    for (int now = ready; now < ready + 4'000; now += 97) {
      const TimePoint start = std::max(outline.ready, queue.last_first_token() - milliseconds(20));
      const double least =
          outline.prompts == 0
              ? 0
              : std::max(0.0, to_milliseconds(start - at(now)) + outline.head.uncached) + outline.after.uncached;
      const double wait = wait_ms(queue, now, 20);
      ASSERT_LE(least, wait + 1e-6) << "seed " << seed << ", round " << round << ", at " << now - ready;
      if (wait > 0 && least > wait - 1e-6) ++tight;
    }
  }
  EXPECT_GT(tight, 1'000U) << "it is the wait, unless a prompt came after a pause";
}

// A stream's first token shows when its prompt was computed, however late that is.
TEST(PrefillQueue, AStreamIsNotDoneBeforeItsFirstToken) {
  PrefillQueue queue;
  for (std::uint64_t i = 1; i <= 3; ++i)
    queue.push({.request = RequestId(i), .ready = at(0), .work = {.uncached = 100}, .streams = true});
  EXPECT_DOUBLE_EQ(wait_ms(queue, 50), 250);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 5'000), 200) << "the first will be done at any moment, the others have not begun";
  queue.on_first_token(RequestId(1), at(5'000));
  EXPECT_DOUBLE_EQ(wait_ms(queue, 5'040), 160);
}

TEST(PrefillQueue, KnowsItsStreams) {
  PrefillQueue queue;
  EXPECT_EQ(queue.oldest_stream(at(0)), nullptr);
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 100}, .new_blocks = 3});
  EXPECT_EQ(queue.oldest_stream(at(0)), nullptr) << "no first token will be seen";
  queue.push({.request = RequestId(2), .ready = at(0), .work = {.uncached = 100}, .streams = true, .new_blocks = 4});
  queue.push({.request = RequestId(3), .ready = at(0), .work = {.uncached = 100}, .streams = true, .new_blocks = 5});
  ASSERT_NE(queue.oldest_stream(at(0)), nullptr);
  EXPECT_EQ(queue.oldest_stream(at(0))->request, RequestId(2));
  EXPECT_EQ(queue.streams(at(0)), 2U);
  EXPECT_EQ(queue.new_blocks(), 12U);
}

// Engines that compute prompts side by side, and requests that wait for something of their own.
TEST(PrefillQueue, WhoWasOvertakenHoldsUpNobody) {
  PrefillQueue queue;
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 5'000}, .streams = true});
  queue.push({.request = RequestId(2), .ready = at(0), .work = {.uncached = 100}, .streams = true});
  queue.push({.request = RequestId(3), .ready = at(0), .work = {.uncached = 100}, .streams = true});
  queue.on_first_token(RequestId(2), at(300));
  EXPECT_EQ(queue.oldest_stream(at(310))->request, RequestId(1)) << "of one step, in any order";
  EXPECT_DOUBLE_EQ(wait_ms(queue, 310), 5'090);
  EXPECT_EQ(queue.oldest_stream(at(400))->request, RequestId(3));
  EXPECT_EQ(queue.streams(at(400)), 1U);
  EXPECT_DOUBLE_EQ(wait_ms(queue, 390), 10) << "the third began with the second's first token";
  EXPECT_TRUE(queue.is_overtaken(RequestId(1), at(400)));
  EXPECT_FALSE(queue.is_overtaken(RequestId(3), at(400)));
  EXPECT_EQ(queue.outline().prompts, 1U);
  EXPECT_DOUBLE_EQ(queue.work().uncached, 5'100) << "it is still to be computed";
}

TEST(PrefillQueue, AWholeAnswerOvertakesToo) {
  PrefillQueue queue;
  const auto push = [&](std::uint64_t id, int now, bool streams) {
    queue.push(
        {.request = RequestId(id), .ready = at(now), .work = {.uncached = 900}, .streams = streams, .routed = at(now)});
  };
  push(1, 0, true);
  push(2, 100, false);
  push(3, 200, true);
  queue.pass_before(at(100), at(400));
  EXPECT_TRUE(queue.is_overtaken(RequestId(1), at(500)));
  EXPECT_FALSE(queue.is_overtaken(RequestId(3), at(500))) << "it came later";
  push(4, 600, false);
  queue.on_first_token(RequestId(4), at(700));
  EXPECT_FALSE(queue.is_overtaken(RequestId(3), at(900))) << "word of another gateway's is late";
}

TEST(PrefillQueue, KnowsAWorkerThatComputesOnePromptAfterTheOther) {
  PrefillQueue queue;
  std::uint64_t next = 0;
  const auto push = [&](int now) {
    queue.push({.request = RequestId(++next),
                .ready = at(now),
                .work = {.uncached = 900},
                .streams = true,
                .routed = at(now)});
  };
  push(0);
  push(1);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_FALSE(queue.keeps_order()) << i;
    push(2'000 * i);
    queue.on_first_token(RequestId(static_cast<std::uint64_t>(i)), at(2'000 * i + 1));
  }
  EXPECT_TRUE(queue.keeps_order());
  queue.on_first_token(RequestId(5), at(9'000));
  EXPECT_TRUE(queue.keeps_order()) << "one step may give both";
  queue.on_first_token(RequestId(4), at(9'500));
  EXPECT_FALSE(queue.keeps_order());
}

TEST(PrefillQueue, AnEndAndAShorterPromptThatOvertakesAreTakenOut) {
  PrefillQueue queue;
  queue.push({.request = RequestId(1), .ready = at(0), .work = {.uncached = 1'000}});
  queue.push({.request = RequestId(2), .ready = at(0), .work = {.uncached = 10}});
  queue.push({.request = RequestId(3), .ready = at(0), .work = {.uncached = 300}});
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
  queue.push({.request = RequestId(1), .ready = at(5'000), .work = {.uncached = 100}});
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
      queue.push({.request = RequestId(++last),
                  .ready = at(now),
                  .work = {.uncached = static_cast<double>(random.uniform_int(1, 500))}});
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
}  // namespace kvist::routing::prefill_queue_test
