#include "kvist/net/event_loop.h"
#include "kvist/net/loop_impl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace kvist::net::event_loop_test {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(EventLoop, RunsPostedCallsInOrder) {
  EventLoop loop;
  std::vector<int> ran;
  std::jthread poster([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&ran, i] { ran.push_back(i); });
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  ASSERT_EQ(ran.size(), 1000U);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

// The descriptor that wakes the loop is never read, so each wake-up has to be noticed anew.
TEST(EventLoop, WakesForEachPostHoweverOftenItSleptBefore) {
  EventLoop loop;
  std::atomic<int> ran = 0;
  std::jthread poster([&] {
    for (int i = 0; i < 2'000; ++i) {
      loop.post([&] {
        ++ran;
        ran.notify_one();
      });
      ran.wait(i);  // the loop has nothing left to do and sleeps, or is about to
    }
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(ran, 2'000);
}

/// Has itself called again and again.
class Restless final : public Watched {
 public:
  Restless(EventLoop& loop, int times, std::function<void()> at_end)
      : Watched(loop.impl()), left_(times), at_end_(std::move(at_end)) {
    call_soon();
  }
  ~Restless() override { forget(); }
  [[nodiscard]] int left() const { return left_; }

 private:
  void on_ready() override {
    if (--left_ > 0) return call_soon();
    at_end_();
  }
  [[nodiscard]] bool urgent() const override { return left_ % 2 == 0; }

  int left_;
  std::function<void()> at_end_;
};

// So many that the loop never gets to the end of its queues, and has to forget what it called while others wait.
TEST(EventLoop, CallsEachOfManyThatAreAlwaysReady) {
  constexpr std::size_t kCount = 10'000;
  constexpr int kTimes = 20;
  EventLoop loop;
  std::size_t ended = 0;
  std::vector<std::unique_ptr<Restless>> all;
  for (std::size_t i = 0; i < kCount; ++i) {
    all.push_back(std::make_unique<Restless>(loop, kTimes, [&] {
      if (++ended == kCount - kCount / 100) loop.stop();
    }));
  }
  loop.post([&] {  // some are destroyed while they wait
    for (std::size_t i = 0; i < kCount; i += 100) all[i].reset();
  });
  loop.run();
  EXPECT_EQ(ended, kCount - kCount / 100);
  for (const auto& one : all) {
    if (one) {
      EXPECT_EQ(one->left(), 0);
    }
  }
}

TEST(EventLoop, StoppedBeforeRunningDoesNotRun) {
  EventLoop loop;
  bool ran = false;
  loop.post([&] { ran = true; });
  loop.stop();
  loop.stop();
  loop.run();
  EXPECT_FALSE(ran);
}

TEST(EventLoop, TerminationCallsEachHandlerOnce) {
  EventLoop loop;
  int first = 0;
  int second = 0;
  loop.on_termination([&] { ++first; });
  loop.on_termination([&] {
    ++second;
    std::raise(SIGTERM);  // a second signal is swallowed
    loop.post([&] { loop.stop(); });
  });
  loop.post([] { std::raise(SIGINT); });
  loop.run();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(EventLoop, HangupsCallAllHandlersEachTime) {
  EventLoop loop;
  std::vector<int> called;
  loop.on_hangup([&] { called.push_back(1); });
  loop.on_hangup([&] {
    called.push_back(2);
    if (called.size() < 4) {
      std::raise(SIGHUP);
    } else {
      loop.stop();
    }
  });
  loop.post([] { std::raise(SIGHUP); });
  loop.run();
  EXPECT_EQ(called, (std::vector{1, 2, 1, 2}));
}

TEST(EventLoop, ARepeatedTerminationIsOneThatComesLater) {
  EventLoop loop;
  int first = 0;
  int repeated = 0;
  Timer later(loop);
  loop.on_termination([&] {
    ++first;
    std::raise(SIGTERM);  // the same request to end, as a terminal and a parent send it
    later.arm(now() + EventLoop::kOneSignal, [] { std::raise(SIGTERM); });
  });
  loop.on_repeated_termination([&] {
    ++repeated;
    loop.stop();
  });
  loop.post([] { std::raise(SIGINT); });
  loop.run();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(repeated, 1);
}

TEST(Timer, FiresInTheOrderOfTime) {
  EventLoop loop;
  std::vector<int> fired;
  Timer late(loop);
  Timer early(loop);
  Timer past(loop);
  const TimePoint start = now();
  late.arm(start + milliseconds(20), [&] {
    EXPECT_GE(now(), start + milliseconds(20));
    fired.push_back(3);
    loop.stop();
  });
  early.arm(start + milliseconds(5), [&] { fired.push_back(2); });
  past.arm(start - milliseconds(5), [&] { fired.push_back(1); });
  loop.run();
  EXPECT_THAT(fired, ElementsAre(1, 2, 3));
}

TEST(Timer, RearmingDropsThePreviousCallEvenIfItWasDue) {
  EventLoop loop;
  std::vector<int> fired;
  Timer timer(loop);
  Timer end(loop);
  timer.arm(now() - milliseconds(1), [&] { fired.push_back(1); });
  timer.arm(now() - milliseconds(1), [&] {
    fired.push_back(2);
    timer.arm(now(), [&] { fired.push_back(3); });  // from its own handler
  });
  end.arm(now() + milliseconds(20), [&] { loop.stop(); });
  loop.run();
  EXPECT_THAT(fired, ElementsAre(2, 3));
}

TEST(Timer, CancellingAndDestroyingDropTheCall) {
  EventLoop loop;
  int fired = 0;
  auto destroyed = std::make_unique<Timer>(loop);
  Timer cancelled(loop);
  Timer moved_over(loop);
  Timer end(loop);
  destroyed->arm(now(), [&] { ++fired; });
  cancelled.arm(now(), [&] { ++fired; });
  moved_over.arm(now(), [&] { ++fired; });
  destroyed.reset();
  cancelled.cancel();
  moved_over = Timer(loop);
  end.arm(now() + milliseconds(20), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(fired, 0);
}

TEST(Timer, MayBeDestroyedInsideItsHandler) {
  EventLoop loop;
  auto timer = std::make_unique<Timer>(loop);
  timer->arm(now(), [&, token = std::make_shared<int>(7)] {
    timer.reset();
    EXPECT_EQ(*token, 7);
    loop.stop();
  });
  loop.run();
  EXPECT_EQ(timer, nullptr);
}

}  // namespace
}  // namespace kvist::net::event_loop_test
