#include "kvist/dispatch/silence_watch.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/random.h"

namespace kvist::dispatch::silence_watch_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = SilenceWatch::Verdict;

class SilenceWatchTest : public ::testing::Test {
 protected:
  Verdict at(milliseconds time) { return watch_.judge(wait_, worker_, start_ + time); }

  WorkerId worker_{1};
  TimePoint start_{seconds(50)};
  SilenceWatch watch_{seconds(2), 2};
  SilenceWatch::Wait wait_ = watch_.begin(100, start_);
};

TEST_F(SilenceWatchTest, PatienceIsThreeTimesTheForecastAndAtLeastTheBound) {
  EXPECT_EQ(watch_.begin(100, start_).patience, seconds(2));
  EXPECT_EQ(watch_.begin(4'000, start_).patience, seconds(12));
  EXPECT_GT(watch_.begin(1e300, start_).patience, seconds(1));
}

TEST_F(SilenceWatchTest, AsksAfterHalfOfItAndLeavesAfterAllOfIt) {
  EXPECT_EQ(at(milliseconds(999)), Verdict::kWait);
  EXPECT_EQ(at(milliseconds(1'000)), Verdict::kAsk);
  EXPECT_EQ(at(milliseconds(1'999)), Verdict::kWait);
  EXPECT_FALSE(watch_.is_silent(worker_));
  EXPECT_EQ(at(milliseconds(2'000)), Verdict::kLeave);
  EXPECT_TRUE(watch_.is_silent(worker_));
  EXPECT_FALSE(watch_.is_silent(WorkerId(0)));
}

TEST_F(SilenceWatchTest, ASignOfLifeBeginsAnew) {
  EXPECT_EQ(at(milliseconds(1'000)), Verdict::kAsk);
  watch_.on_life(worker_, start_ + milliseconds(1'500));
  EXPECT_EQ(at(milliseconds(2'400)), Verdict::kWait);
  EXPECT_EQ(at(milliseconds(2'500)), Verdict::kAsk) << "a new question";
  EXPECT_EQ(at(milliseconds(3'499)), Verdict::kWait);
  EXPECT_EQ(at(milliseconds(3'500)), Verdict::kLeave);
  watch_.on_life(worker_, start_ + milliseconds(3'600));
  EXPECT_FALSE(watch_.is_silent(worker_));
}

TEST_F(SilenceWatchTest, AWorkerThatAnswersKeepsItsRequestsHoweverLong) {
  for (int i = 100; i < 600'000; i += 100) {
    const Verdict verdict = at(milliseconds(i));
    ASSERT_NE(verdict, Verdict::kLeave) << i;
    if (verdict == Verdict::kAsk) watch_.on_life(worker_, start_ + milliseconds(i + 50));
  }
}

TEST_F(SilenceWatchTest, IfTheGatewayItselfStoodStillTheWorkerIsAskedFirst) {
  EXPECT_EQ(at(milliseconds(9'000)), Verdict::kAsk);
  EXPECT_EQ(at(milliseconds(9'499)), Verdict::kWait);
  EXPECT_EQ(at(milliseconds(9'500)), Verdict::kLeave);
}

TEST_F(SilenceWatchTest, ARequestThatCannotLeaveIsToldAgain) {
  EXPECT_EQ(at(milliseconds(1'000)), Verdict::kAsk);
  EXPECT_EQ(at(milliseconds(2'000)), Verdict::kLeave);
  EXPECT_EQ(at(milliseconds(2'499)), Verdict::kWait);
  EXPECT_EQ(at(milliseconds(2'500)), Verdict::kLeave);
}

/// Requests leave only after their whole patience of silence, and within a look after it.
TEST(SilenceWatch, LeavesNeitherEarlyNorLate) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    SilenceWatch watch(seconds(2), 1);
    const WorkerId worker(0);
    const TimePoint start{seconds(10)};
    SilenceWatch::Wait wait = watch.begin(3'000 * random.uniform(), start);
    const TimePoint stops = start + milliseconds(random.uniform_int(0, 30'000));
    TimePoint alive = start;
    for (TimePoint now = start;; now += milliseconds(100)) {
      const Verdict verdict = watch.judge(wait, worker, now);
      if (verdict == Verdict::kLeave) {
        EXPECT_GE(now - alive, wait.patience);
        EXPECT_LE(now - alive, wait.patience + milliseconds(200));
        break;
      }
      ASSERT_LE(now - stops, wait.patience + milliseconds(300));
      // While it lives, it answers health checks within 90 ms, and other streams bring tokens now and then.
      if (now < stops && (verdict == Verdict::kAsk || random.uniform() < 0.02)) {
        alive = now + milliseconds(random.uniform_int(0, 90));
        watch.on_life(worker, alive);
      }
    }
  }
}

}  // namespace
}  // namespace kvist::dispatch::silence_watch_test
