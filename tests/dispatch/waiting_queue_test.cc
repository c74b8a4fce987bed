#include "kvist/dispatch/waiting_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "kvist/base/random.h"

namespace kvist::dispatch {
namespace {

TimePoint at_ms(std::int64_t ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

std::optional<RequestId> next(const WaitingQueue& queue, TimePoint now, const std::map<std::uint64_t, double>& ttft) {
  return queue.next(now, [&](RequestId id) -> std::optional<double> {
    const auto found = ttft.find(id.value());
    return found == ttft.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(WaitingQueue, TheDeeperCacheGoesFirst) {
  WaitingQueue queue(10);
  for (std::uint64_t id = 1; id <= 3; ++id) queue.push({RequestId(id), at_ms(0), at_ms(2'000)});
  EXPECT_EQ(next(queue, at_ms(100), {{1, 400}, {2, 80}, {3, 400}}), RequestId(2));
  EXPECT_TRUE(queue.erase(RequestId(2)));
  EXPECT_FALSE(queue.erase(RequestId(2)));
  EXPECT_EQ(next(queue, at_ms(100), {{1, 400}, {3, 400}}), RequestId(1)) << "by arrival";
}

TEST(WaitingQueue, AgeWinsInTheEnd) {
  WaitingQueue queue(10);
  queue.push({RequestId(1), at_ms(0), at_ms(9'000)});
  queue.push({RequestId(2), at_ms(500), at_ms(9'000)});
  EXPECT_EQ(next(queue, at_ms(600), {{1, 700}, {2, 100}}), RequestId(2)) << "500 ms older, 600 ms slower";
  EXPECT_EQ(next(queue, at_ms(600), {{1, 550}, {2, 100}}), RequestId(1));
}

TEST(WaitingQueue, ThoseThatCannotUseTheSlotArePassedOver) {
  WaitingQueue queue(10);
  queue.push({RequestId(1), at_ms(0), at_ms(9'000)});
  queue.push({RequestId(2), at_ms(0), at_ms(9'000)});
  EXPECT_EQ(next(queue, at_ms(1), {{2, 100}}), RequestId(2));
  EXPECT_EQ(next(queue, at_ms(1), {}), std::nullopt);
}

TEST(WaitingQueue, TheEarlierDeadlineBreaksATie) {
  WaitingQueue queue(10);
  queue.push({RequestId(1), at_ms(0), at_ms(900)});
  queue.push({RequestId(2), at_ms(0), at_ms(800)});
  EXPECT_EQ(next(queue, at_ms(1), {{1, 5}, {2, 5}}), RequestId(2));
  EXPECT_EQ(queue.overdue(at_ms(799)), std::nullopt);
  EXPECT_EQ(queue.overdue(at_ms(800)), RequestId(2));
}

TEST(WaitingQueue, IsBounded) {
  WaitingQueue queue(1);
  EXPECT_TRUE(queue.has_room());
  queue.push({RequestId(1), at_ms(0), at_ms(1)});
  EXPECT_FALSE(queue.has_room());
  EXPECT_FALSE(WaitingQueue(0).has_room());
}

TEST(WaitingQueue, NobodyStarves) {
  constexpr std::uint64_t kSeed = 20261121;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  WaitingQueue queue(100);
  std::map<std::uint64_t, double> ttft;
  std::uint64_t last = 0;
  std::map<std::uint64_t, std::int64_t> since;
  // Slots free as fast as requests come; half of those that come could always overtake.
  for (std::int64_t now = 0; now < 100'000; now += 50) {
    ++last;
    queue.push({RequestId(last), at_ms(now), at_ms(now + 1'000'000)});
    ttft[last] = random.uniform() < 0.5 ? 40 : 900;
    since[last] = now;
    if (now < 1'000) continue;  // some wait already
    const auto served = next(queue, at_ms(now), ttft);
    ASSERT_TRUE(served);
    EXPECT_LE(now - since[served->value()], 860 + 1'000 + 50);
    queue.erase(*served);
  }
  EXPECT_EQ(queue.size(), 20U);
}

}  // namespace
}  // namespace kvist::dispatch
