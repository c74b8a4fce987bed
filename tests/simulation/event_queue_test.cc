#include "kvist/simulation/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/simulation/virtual_time.h"

namespace kvist::simulation::event_queue_test {
namespace {

TimePoint at(std::int64_t ns) {
  return TimePoint(Duration(ns));
}

TEST(EventQueue, GivesEventsByTimeAndTiesInTheirOrder) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    EventQueue<int> queue;
    std::vector<std::pair<TimePoint, int>> expected;  // stable-sorted below
    int number = 0;
    const auto push = [&] {
      const TimePoint when = at(random.uniform_int(0, 50));
      queue.push(when, number);
      expected.emplace_back(when, number++);
    };
    for (int i = 0; i < 500; ++i) push();
    std::ranges::stable_sort(expected, {}, &std::pair<TimePoint, int>::first);
    for (const auto& event : expected) ASSERT_EQ(queue.pop(), event);
    EXPECT_TRUE(queue.empty());
  }
}

TEST(EventQueue, KeepsTheOrderWhilePushesAndPopsMix) {
  RandomStream random(7);
  EventQueue<int> queue;
  std::vector<std::pair<TimePoint, int>> waiting;
  TimePoint now;
  for (int i = 0; i < 5'000; ++i) {
    if (waiting.empty() || random.uniform_int(0, 99) < 55) {
      const TimePoint when = now + Duration(random.uniform_int(0, 20));
      queue.push(when, i);
      waiting.emplace_back(when, i);
      continue;
    }
    const auto first = std::ranges::min_element(waiting);  // equal times: the lower number was pushed before
    ASSERT_EQ(queue.pop(), *first);
    now = first->first;
    waiting.erase(first);
    ASSERT_EQ(queue.size(), waiting.size());
  }
}

TEST(EventQueue, KeepsTheOrderWhereSomeComeBeforeThoseThatWereNext) {
  RandomStream random(11);
  EventQueue<int> queue;
  std::vector<std::pair<TimePoint, int>> waiting;
  TimePoint now;
  int number = 0;
  for (int i = 0; i < 5'000; ++i) {
    if (waiting.size() < 40 || random.uniform_int(0, 99) < 45) {
      const TimePoint when = now + Duration(random.uniform_int(0, random.uniform() < 0.5 ? 5 : 100));
      queue.push(when, number);
      waiting.emplace_back(when, number++);
      continue;
    }
    const auto first = std::ranges::min_element(waiting);
    ASSERT_EQ(queue.pop(), *first);
    now = first->first;
    waiting.erase(first);
    ASSERT_EQ(queue.size(), waiting.size());
  }
}

TEST(VirtualTime, GoesOnWithTheEventsAndNeverBack) {
  VirtualTime time;
  EXPECT_EQ(time.now(), TimePoint{});
  time.schedule(at(50), {.subject = 1, .worker = {}, .kind = EventKind::kSnapshot});
  time.schedule(at(20), {.subject = 2, .worker = {}, .kind = EventKind::kSnapshot});
  EXPECT_EQ(time.next().subject, 2U);
  EXPECT_EQ(time.now(), at(20));
  time.schedule(at(10), {.subject = 3, .worker = {}, .kind = EventKind::kSnapshot});  // overdue: happens now
  EXPECT_EQ(time.next().subject, 3U);
  EXPECT_EQ(time.now(), at(20));
  EXPECT_EQ(time.next().subject, 1U);
  EXPECT_EQ(time.now(), at(50));
  EXPECT_FALSE(time.has_next());
  EXPECT_EQ(time.events(), 3U);
}

}  // namespace
}  // namespace kvist::simulation::event_queue_test
