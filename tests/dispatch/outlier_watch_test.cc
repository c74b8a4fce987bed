#include "kvist/dispatch/outlier_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kvist/base/random.h"

namespace kvist::dispatch::outlier_watch_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class OutlierWatchTest : public ::testing::Test {
 protected:
  bool fail(std::uint32_t worker, int times = 1, std::size_t usable = 4) {
    bool changed = false;
    for (int i = 0; i < times; ++i)
      changed = watch_.on_failure(WorkerId(worker), AttemptFailure::kServerError, "status 500", now_,
                                  {.workers = usable, .ejected = ejected()}, now_);
    return changed;
  }
  void succeed(std::uint32_t worker, int times = 1) {
    for (int i = 0; i < times; ++i) watch_.on_good(WorkerId(worker), true, now_);
  }
  Ejection state(std::uint32_t worker) const { return watch_.worker(WorkerId(worker)).state; }
  std::size_t ejected() const {
    std::size_t count = 0;
    for (std::uint32_t w = 0; w < 4; ++w) count += state(w) == Ejection::kIn ? 0 : 1;
    return count;
  }
  Duration time(std::uint32_t worker) const { return watch_.worker(WorkerId(worker)).time; }
  void pass(Duration time) {
    now_ += time;
    (void)watch_.poll(now_);
  }
  /// Lets an ejection end and the worker's trial fail.
  void fail_trial(std::uint32_t worker) {
    pass(time(worker));
    ASSERT_TRUE(watch_.on_given(WorkerId(worker), now_));
    ASSERT_TRUE(fail(worker));
  }

  TimePoint now_{seconds(100)};
  OutlierWatch watch_{{}, 4};
};

TEST_F(OutlierWatchTest, FiveFailuresInARowEject) {
  EXPECT_FALSE(fail(0, 4));
  succeed(0);
  EXPECT_FALSE(fail(0, 4)) << "a good answer was in between";
  EXPECT_TRUE(fail(0));
  EXPECT_EQ(state(0), Ejection::kOut);
  const OutlierWatch::Worker& worker = watch_.worker(WorkerId(0));
  EXPECT_EQ(worker.rule, EjectionRule::kInARow);
  EXPECT_EQ(worker.failure, AttemptFailure::kServerError);
  EXPECT_EQ(worker.problem, "status 500");
  EXPECT_EQ(worker.until, now_ + seconds(5));
  EXPECT_EQ(worker.ejections[0], 1U);
}

TEST_F(OutlierWatchTest, AFirstTokenInterruptsARowToo) {
  fail(0, 4);
  watch_.on_good(WorkerId(0), false, now_);
  EXPECT_FALSE(fail(0, 4));
}

TEST_F(OutlierWatchTest, FirstTokensDoNotHideThatAnswersBreakOff) {
  const auto break_off = [&] {
    watch_.on_good(WorkerId(0), false, now_);
    return watch_.on_failure(WorkerId(0), AttemptFailure::kTransport, "broke off", now_, {.workers = 4}, now_, true);
  };
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(break_off());
  EXPECT_TRUE(break_off());
  pass(seconds(5));
  EXPECT_TRUE(watch_.on_given(WorkerId(0), now_));
  EXPECT_FALSE(watch_.on_good(WorkerId(0), false, now_)) << "its answers have always begun well";
  EXPECT_EQ(state(0), Ejection::kProbing);
  EXPECT_FALSE(watch_.on_given(WorkerId(0), now_)) << "nobody else is to be broken off";
  EXPECT_TRUE(watch_.on_good(WorkerId(0), true, now_));
  EXPECT_EQ(state(0), Ejection::kIn);
  fail(0, 5);
  pass(time(0));
  EXPECT_TRUE(watch_.on_given(WorkerId(0), now_));
  EXPECT_TRUE(watch_.on_good(WorkerId(0), false, now_)) << "what failed last came before any first token";
}

TEST_F(OutlierWatchTest, AHighShareOfFailuresEjectsIfTheOthersDoBetter) {
  for (int i = 0; i < 9; ++i) {
    succeed(0);
    EXPECT_FALSE(fail(0)) << "so few answers say nothing";
  }
  succeed(0);
  EXPECT_TRUE(fail(0)) << "10 of 20";
  EXPECT_EQ(watch_.worker(WorkerId(0)).rule, EjectionRule::kShare);
  EXPECT_EQ(watch_.failure_share(WorkerId(0), now_), 0.5);
}

TEST_F(OutlierWatchTest, OldAnswersDoNotCount) {
  for (int i = 0; i < 9; ++i) {
    fail(0);
    succeed(0);
  }
  pass(seconds(60));
  EXPECT_EQ(watch_.failure_share(WorkerId(0), now_), 0);
  succeed(0);
  EXPECT_FALSE(fail(0, 2));
}

TEST_F(OutlierWatchTest, WhatMakesAllWorkersFailEjectsNone) {
  for (int i = 0; i < 50; ++i) {
    for (std::uint32_t w = 0; w < 4; ++w) EXPECT_FALSE(fail(w) && state(w) == Ejection::kOut && w != 0) << i;
  }
  // The first worker to reach the bound could be ejected only while the others had failed less.
  std::uint32_t out = 0;
  for (std::uint32_t w = 0; w < 4; ++w) out += state(w) == Ejection::kOut ? 1 : 0;
  EXPECT_EQ(out, 0U);
}

TEST_F(OutlierWatchTest, AtMostHalfOfTheUsableWorkersAreEjected) {
  succeed(0, 100);
  EXPECT_TRUE(fail(1, 5));
  EXPECT_TRUE(fail(2, 5));
  EXPECT_FALSE(fail(3, 5));
  EXPECT_EQ(watch_.worker(WorkerId(3)).over_cap, 1U);
  EXPECT_EQ(state(3), Ejection::kIn);
}

TEST_F(OutlierWatchTest, TheOnlyUsableWorkerIsNeverEjected) {
  EXPECT_FALSE(fail(0, 100, 1));
  EXPECT_TRUE(fail(0, 1, 2)) << "once there is another";
}

TEST_F(OutlierWatchTest, AfterItsTimeOneRequestTriesTheWorkerOut) {
  fail(0, 5);
  EXPECT_FALSE(watch_.is_due(now_ + milliseconds(4'999)));
  now_ += seconds(5);
  EXPECT_TRUE(watch_.is_due(now_));
  EXPECT_EQ(watch_.poll(now_), std::vector<WorkerId>{WorkerId(0)});
  EXPECT_EQ(state(0), Ejection::kTrial);
  EXPECT_TRUE(watch_.on_given(WorkerId(0), now_));
  EXPECT_FALSE(watch_.on_given(WorkerId(0), now_)) << "one at a time";
  EXPECT_EQ(state(0), Ejection::kProbing);
  EXPECT_TRUE(watch_.on_trial_void(WorkerId(0), now_)) << "its client left";
  EXPECT_TRUE(watch_.on_given(WorkerId(0), now_));
  EXPECT_TRUE(watch_.on_good(WorkerId(0), false, now_)) << "its first token";
  EXPECT_EQ(state(0), Ejection::kIn);
}

TEST_F(OutlierWatchTest, AFailedTrialEjectsForTwiceAsLongUpToTheBound) {
  fail(0, 5);
  fail_trial(0);
  EXPECT_EQ(time(0), seconds(10));
  EXPECT_EQ(watch_.worker(WorkerId(0)).rule, EjectionRule::kTrialFailed);
  for (int i = 0; i < 10; ++i) fail_trial(0);
  EXPECT_EQ(time(0), seconds(300));
}

TEST_F(OutlierWatchTest, WhatBeganBeforeTheTrialDoesNotFailIt) {
  fail(0, 5);
  const TimePoint before = now_;
  pass(seconds(5));
  EXPECT_TRUE(watch_.on_given(WorkerId(0), now_));
  EXPECT_FALSE(watch_.on_failure(WorkerId(0), AttemptFailure::kServerError, "late", before, {.workers = 4}, now_));
  EXPECT_EQ(state(0), Ejection::kProbing);
}

TEST_F(OutlierWatchTest, AWorkerThatWasWellForLongBeginsAnew) {
  const auto come_back = [&] {
    pass(time(0));
    ASSERT_TRUE(watch_.on_given(WorkerId(0), now_));
    ASSERT_TRUE(watch_.on_good(WorkerId(0), true, now_));
  };
  fail(0, 5);
  come_back();
  pass(seconds(19));
  EXPECT_TRUE(fail(0, 5));
  EXPECT_EQ(time(0), seconds(10)) << "back for less than four times as long as it had been out";
  come_back();
  pass(seconds(40));
  EXPECT_TRUE(fail(0, 5));
  EXPECT_EQ(time(0), seconds(5));
}

TEST_F(OutlierWatchTest, ANewProcessMayBeTriedOutAtOnce) {
  fail(0, 5);
  fail_trial(0);
  EXPECT_TRUE(watch_.on_restarted(WorkerId(0), now_));
  EXPECT_EQ(state(0), Ejection::kTrial);
  EXPECT_TRUE(watch_.on_given(WorkerId(0), now_));
  EXPECT_TRUE(fail(0));
  EXPECT_EQ(time(0), seconds(5)) << "its predecessor's failures are forgotten";
  EXPECT_FALSE(watch_.on_restarted(WorkerId(1), now_));
}

TEST_F(OutlierWatchTest, RulesCanBeSwitchedOff) {
  OutlierWatch off({.failures_in_a_row = 0, .failure_share = 1}, 4);
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(off.on_failure(WorkerId(0), AttemptFailure::kGarbage, "", now_, {.workers = 4}, now_));
}

/// Random events: the invariants hold whatever happens.
TEST(OutlierWatch, KeepsItsInvariantsWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStream random(seed);
    const auto workers = static_cast<std::uint32_t>(random.uniform_int(1, 9));
    const spec::EjectionSpec options{.failures_in_a_row = static_cast<std::uint32_t>(random.uniform_int(1, 6)),
                                     .failure_share = 0.1 + 0.8 * random.uniform(),
                                     .least_answers = static_cast<std::uint32_t>(random.uniform_int(1, 30)),
                                     .most_of_fleet = random.uniform()};
    OutlierWatch watch(options, workers);
    const auto most = static_cast<std::uint32_t>(std::floor(options.most_of_fleet * workers));
    const auto count_ejected = [&] {
      std::uint32_t ejected = 0;
      for (std::uint32_t w = 0; w < workers; ++w) ejected += watch.worker(WorkerId(w)).state == Ejection::kIn ? 0 : 1;
      return ejected;
    };
    TimePoint now{seconds(1)};
    std::vector<double> failing(workers);
    for (double& share : failing) share = random.uniform() < 0.3 ? 1 : 0.3 * random.uniform();
    for (int i = 0; i < 1'000; ++i) {
      now += milliseconds(random.uniform_int(0, 500));
      (void)watch.poll(now);
      EXPECT_FALSE(watch.is_due(now));
      const WorkerId id(static_cast<std::uint32_t>(random.uniform_int(0, workers - 1)));
      const Ejection before = watch.worker(id).state;
      if (before == Ejection::kTrial) {
        EXPECT_TRUE(watch.on_given(id, now));
      }
      if (random.uniform() < failing[id.value()]) {
        watch.on_failure(id, AttemptFailure::kGarbage, "x", now, {.workers = workers, .ejected = count_ejected()}, now);
      } else if (random.uniform() < 0.9) {
        watch.on_good(id, random.uniform() < 0.5, now);
        EXPECT_EQ(watch.worker(id).failures_in_a_row, 0U);
        if (before == Ejection::kTrial || before == Ejection::kProbing) {
          EXPECT_EQ(watch.worker(id).state, Ejection::kIn);
        }
      } else {
        watch.on_trial_void(id, now);
      }
      for (std::uint32_t w = 0; w < workers; ++w) {
        const OutlierWatch::Worker& worker = watch.worker(WorkerId(w));
        EXPECT_LE(worker.time, options.longest_time);
        if (worker.state == Ejection::kOut) {
          EXPECT_EQ(worker.until - worker.since, worker.time);
        }
      }
      EXPECT_LE(count_ejected(), most);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace kvist::dispatch::outlier_watch_test
