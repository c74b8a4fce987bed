// Work beside a loop.
#include "kvist/net/work_pool.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "kvist/net/event_loop.h"

namespace kvist::net::work_pool_test {
namespace {

TEST(WorkPoolTest, RunsWorkBesideTheLoopAndBringsItBack) {
  EventLoop loop;
  auto pool = std::make_unique<WorkPool>(loop, WorkPool::Options{.threads = 2, .max_waiting = 8});
  const std::thread::id here = std::this_thread::get_id();
  int back = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(pool->submit(
        [&, here]() -> std::function<void()> {
          EXPECT_NE(std::this_thread::get_id(), here);
          return [&, here] {
            EXPECT_EQ(std::this_thread::get_id(), here);
            if (++back == 4) loop.stop();
          };
        },
        0));
  }
  loop.run();
  EXPECT_EQ(back, 4);
  EXPECT_EQ(pool->counters().done, 4U);
}

TEST(WorkPoolTest, RefusesBeyondItsBoundAndDropsWhatWaits) {
  EventLoop loop;
  auto pool =
      std::make_unique<WorkPool>(loop, WorkPool::Options{.threads = 1, .max_waiting = 2, .max_waiting_bytes = 100});
  std::promise<void> begun;
  std::promise<void> go;
  ASSERT_TRUE(pool->submit(
      [&]() -> std::function<void()> {
        begun.set_value();
        go.get_future().wait();
        return [] { ADD_FAILURE() << "the pool is gone"; };
      },
      0));
  begun.get_future().wait();
  const auto never = []() -> std::function<void()> { return [] { ADD_FAILURE() << "was dropped"; }; };
  EXPECT_TRUE(pool->submit(never, 60));
  EXPECT_FALSE(pool->submit(never, 60)) << "too many bytes";
  EXPECT_TRUE(pool->submit(never, 40));
  EXPECT_FALSE(pool->submit(never, 0)) << "too many";
  EXPECT_EQ(pool->counters().refused, 2U);
  EXPECT_EQ(pool->counters().waiting, 2U);
  EXPECT_EQ(pool->counters().waiting_bytes, 100U);
  go.set_value();
  pool.reset();
  loop.post([&] { loop.stop(); });
  loop.run();
}

}  // namespace
}  // namespace kvist::net::work_pool_test
