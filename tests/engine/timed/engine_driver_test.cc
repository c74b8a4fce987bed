#include "kvist/engine/timed/engine_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

namespace kvist::engine::engine_driver_test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStep{10};
constexpr TimePoint kStart{std::chrono::seconds(5)};

// Steps of one length; every request gets the token 'a' until its limit.
class SteadyExecutor final : public Executor {
 public:
  void on_admit(SlotId /*slot*/, const Request& /*request*/, std::span<const TokenId> /*prompt*/) override {}
  void on_release(SlotId /*slot*/) override {}
  std::optional<Duration> duration(const StepPlan& /*plan*/) override { return kStep; }
  void finish(const StepPlan& plan, StepResult& result) override {
    result.sampled.clear();
    for (const SequenceStep& step : plan.sequences) {
      if (step.samples) result.sampled.push_back({.id = step.id, .tokens = {TokenId('a')}, .ends = false});
    }
  }
};

CoreOptions options() {
  CoreOptions core;
  core.model = "m";
  core.block_size = 4;
  core.kv_blocks = 64;
  core.max_batch_size = 2;
  core.max_num_tokens = 16;
  core.max_model_len = 64;
  return core;
}

Request request(std::uint64_t id, std::uint32_t max_tokens) {
  Request made;
  made.id = RequestId(id);
  made.prompt.assign(6, TokenId('p'));
  made.max_tokens = max_tokens;
  return made;
}

class EngineDriverTest : public testing::Test {
 protected:
  static EngineDriver driver(CoreOptions core = options()) {
    return EngineDriver(std::move(core), std::make_unique<SteadyExecutor>());
  }
};

TEST_F(EngineDriverTest, AnIdleEngineSleepsUntilARequestComes) {
  EngineDriver engine = driver();
  EXPECT_TRUE(engine.poll(kStart).outputs.empty());
  EXPECT_FALSE(engine.next_wakeup());
  ASSERT_TRUE(engine.submit(request(1, 3), kStart));
  EXPECT_TRUE(engine.poll(kStart + milliseconds(7)).outputs.empty());
  EXPECT_EQ(engine.next_wakeup(), kStart + milliseconds(17));
}

TEST_F(EngineDriverTest, APollBeforeTheStepsEndChangesNothing) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 3), kStart));
  static_cast<void>(engine.poll(kStart));
  EXPECT_TRUE(engine.poll(kStart + milliseconds(9)).outputs.empty());
  EXPECT_EQ(engine.next_wakeup(), kStart + kStep);
  EXPECT_EQ(engine.poll(kStart + kStep).outputs.size(), 1U);
  EXPECT_EQ(engine.times().lateness, Duration::zero());
}

TEST_F(EngineDriverTest, LatenessIsCountedButDoesNotAddUp) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 20), kStart));
  static_cast<void>(engine.poll(kStart));
  for (int step = 1; step <= 19; ++step) {
    ASSERT_EQ(engine.next_wakeup(), kStart + step * kStep);
    EXPECT_EQ(engine.poll(kStart + step * kStep + milliseconds(3)).outputs.size(), 1U);
  }
  EXPECT_EQ(engine.times().lateness, 19 * milliseconds(3));
  EXPECT_EQ(engine.times().resynchronisations, 0U);
}

TEST_F(EngineDriverTest, StepsThatAreDueEndOnePerPoll) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 10), kStart));
  static_cast<void>(engine.poll(kStart));
  const TimePoint late = kStart + milliseconds(45);
  for (int step = 1; step <= 4; ++step) {
    const StepOutputs news = engine.poll(late);
    ASSERT_EQ(news.outputs.size(), 1U);
    EXPECT_EQ(news.outputs[0].output_tokens, static_cast<std::uint32_t>(step));
  }
  EXPECT_TRUE(engine.poll(late).outputs.empty());
  EXPECT_EQ(engine.next_wakeup(), kStart + 5 * kStep);
}

TEST_F(EngineDriverTest, BeyondTheBoundTheClockStartsOverFromThePresent) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 10), kStart));
  static_cast<void>(engine.poll(kStart));
  const TimePoint very_late = kStart + kStep + EngineDriver::kMaxLateness + milliseconds(1);
  EXPECT_EQ(engine.poll(very_late).outputs.size(), 1U);
  EXPECT_EQ(engine.next_wakeup(), very_late + kStep);
  EXPECT_EQ(engine.times().resynchronisations, 1U);
}

TEST_F(EngineDriverTest, StepsInFlightFollowOneAnotherOnTheDevice) {
  CoreOptions core = options();
  core.max_steps_in_flight = 2;
  EngineDriver engine = driver(core);
  ASSERT_TRUE(engine.submit(request(1, 5), kStart));
  static_cast<void>(engine.poll(kStart));
  EXPECT_EQ(engine.next_wakeup(), kStart + kStep);
  int steps = 0;
  std::uint32_t tokens = 0;
  while (engine.next_wakeup()) {
    ++steps;
    EXPECT_EQ(engine.next_wakeup(), kStart + steps * kStep);
    for (const RequestOutput& output : engine.poll(*engine.next_wakeup()).outputs)
      tokens += static_cast<std::uint32_t>(output.tokens.size());
    ASSERT_LT(steps, 20);
  }
  EXPECT_EQ(tokens, 5U);
}

TEST_F(EngineDriverTest, LatePollsWithStepsInFlightResynchroniseToo) {
  CoreOptions core = options();
  core.max_steps_in_flight = 2;
  EngineDriver engine = driver(core);
  ASSERT_TRUE(engine.submit(request(1, 10), kStart));
  static_cast<void>(engine.poll(kStart));
  const TimePoint very_late = kStart + std::chrono::seconds(1);
  static_cast<void>(engine.poll(very_late));
  static_cast<void>(engine.poll(very_late));
  static_cast<void>(engine.poll(very_late));
  EXPECT_GE(engine.next_wakeup(), very_late);
}

TEST_F(EngineDriverTest, AbortOfAWaitingRequestIsReportedWithTheNextPoll) {
  CoreOptions core = options();
  core.max_batch_size = 1;
  EngineDriver engine = driver(core);
  ASSERT_TRUE(engine.submit(request(1, 10), kStart));
  ASSERT_TRUE(engine.submit(request(2, 10), kStart));
  static_cast<void>(engine.poll(kStart));
  engine.abort(RequestId(2));
  const StepOutputs news = engine.poll(kStart + milliseconds(1));
  ASSERT_EQ(news.outputs.size(), 1U);
  EXPECT_EQ(news.outputs[0].id, RequestId(2));
  EXPECT_EQ(news.outputs[0].finish, FinishReason::kAborted);
  EXPECT_EQ(engine.stats().waiting, 0U);
}

TEST_F(EngineDriverTest, ResetBringsItsEventWithTheNextPoll) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 1), kStart));
  static_cast<void>(engine.poll(kStart));
  EXPECT_FALSE(engine.reset_prefix_cache());
  const StepOutputs ended = engine.poll(kStart + kStep);
  ASSERT_EQ(ended.events.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<kv::BlockStored>(ended.events[0]));
  EXPECT_TRUE(engine.reset_prefix_cache());
  const StepOutputs reset = engine.poll(kStart + kStep);
  ASSERT_EQ(reset.events.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<kv::AllBlocksCleared>(reset.events[0]));
  EXPECT_TRUE(engine.core().findable_blocks().empty());
}

/// Requests reach the queue of this engine 25 ms after their arrival, and 5 ms later for each sequence that runs.
class IntakeTest : public testing::Test {
 protected:
  static EngineDriver driver(CoreOptions core = options()) {
    EngineDriver::Options intake;
    intake.intake_delay = [](const perfmodel::IntakeLoad& load) {
      EXPECT_EQ(load.prompt_tokens, 6U);
      return milliseconds(25 + 5 * load.running);
    };
    return EngineDriver(std::move(core), std::make_unique<SteadyExecutor>(), std::move(intake));
  }
  /// Polls at each wakeup until there is none; the ids of outputs with their times.
  static std::vector<std::pair<std::uint64_t, TimePoint>> run(EngineDriver& engine) {
    std::vector<std::pair<std::uint64_t, TimePoint>> seen;
    while (const auto next = engine.next_wakeup()) {
      for (const RequestOutput& output : engine.poll(*next).outputs) seen.emplace_back(output.id.value(), *next);
      if (seen.size() > 1'000) break;
    }
    return seen;
  }
};

TEST_F(IntakeTest, ARequestIsHeldAndCountsAsWaiting) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 2), kStart));
  EXPECT_EQ(engine.stats().waiting, 1U);
  EXPECT_EQ(engine.stats().prefill_backlog_tokens, 6U);
  EXPECT_EQ(engine.next_wakeup(), kStart + milliseconds(25));
  EXPECT_TRUE(engine.poll(kStart).outputs.empty());
  EXPECT_EQ(engine.stats().running, 0U);
  static_cast<void>(engine.poll(kStart + milliseconds(25)));
  EXPECT_EQ(engine.stats().running, 1U);
  EXPECT_EQ(engine.stats().waiting, 0U);
  const auto seen = run(engine);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].second, kStart + milliseconds(35));
  EXPECT_EQ(seen[1].second, kStart + milliseconds(45));
}

TEST_F(IntakeTest, AnEngineThatSleptBeginsWhenTheRequestWasThere) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 1), kStart));
  static_cast<void>(engine.poll(kStart + milliseconds(32)));  // late
  EXPECT_EQ(engine.next_wakeup(), kStart + milliseconds(35));
}

TEST_F(IntakeTest, RequestsReachTheQueueInTheOrderOfArrival) {
  CoreOptions core = options();
  core.max_batch_size = 1;
  EngineDriver engine = driver(core);
  ASSERT_TRUE(engine.submit(request(1, 3), kStart));
  static_cast<void>(engine.poll(kStart + milliseconds(25)));
  ASSERT_TRUE(engine.submit(request(2, 1), kStart + milliseconds(26)));  // one runs: there at 56 ms
  // The first has ended at 55 ms; without anybody running the third would overtake the second.
  for (int step = 1; step <= 3; ++step) static_cast<void>(engine.poll(kStart + milliseconds(25 + 10 * step)));
  ASSERT_TRUE(engine.submit(request(3, 1), kStart + milliseconds(30)));
  const auto seen = run(engine);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].first, 2U);
  EXPECT_EQ(seen[0].second, kStart + milliseconds(66));
  EXPECT_EQ(seen[1].first, 3U);
}

TEST_F(IntakeTest, WhileAStepIsUnderWayNobodyNeedsToBeWokenForIt) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 10), kStart));
  static_cast<void>(engine.poll(kStart + milliseconds(25)));
  ASSERT_TRUE(engine.submit(request(2, 2), kStart + milliseconds(27)));  // there at 57 ms
  EXPECT_EQ(engine.next_wakeup(), kStart + milliseconds(35));
  const auto seen = run(engine);
  // It joins the step that begins at 65 ms.
  const auto second = std::ranges::find(seen, 2U, &std::pair<std::uint64_t, TimePoint>::first);
  ASSERT_NE(second, seen.end());
  EXPECT_EQ(second->second, kStart + milliseconds(75));
}

TEST_F(IntakeTest, AbortReachesARequestOnItsWay) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 3), kStart));
  ASSERT_TRUE(engine.submit(request(2, 3), kStart));
  engine.abort(RequestId(1));
  const StepOutputs news = engine.poll(kStart);
  ASSERT_EQ(news.outputs.size(), 1U);
  EXPECT_EQ(news.outputs[0].id, RequestId(1));
  EXPECT_EQ(news.outputs[0].finish, FinishReason::kAborted);
  EXPECT_EQ(news.outputs[0].prompt_tokens, 6U);
  EXPECT_EQ(engine.stats().waiting, 1U);
  EXPECT_EQ(engine.stats().aborted, 1U);
  EXPECT_EQ(run(engine).size(), 3U);
}

TEST_F(IntakeTest, TheQueuesBoundCountsThoseOnTheirWay) {
  CoreOptions core = options();
  core.max_waiting = 2;
  EngineDriver engine = driver(core);
  ASSERT_TRUE(engine.submit(request(1, 1), kStart));
  const Result<void> twice = engine.submit(request(1, 1), kStart);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(engine.submit(request(2, 1), kStart));
  const Result<void> third = engine.submit(request(3, 1), kStart);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kResourceExhausted);
  static_cast<void>(engine.poll(kStart + milliseconds(25)));
  EXPECT_TRUE(engine.submit(request(3, 1), kStart + milliseconds(26)));
  EXPECT_EQ(run(engine).size(), 3U);
}

TEST_F(IntakeTest, TheDelayIsToldTheLastStepThatOnlyDecoded) {
  std::vector<Duration> told;
  EngineDriver::Options intake;
  intake.intake_delay = [&told](const perfmodel::IntakeLoad& load) {
    told.push_back(load.last_decode_step);
    return Duration::zero();
  };
  EngineDriver engine(options(), std::make_unique<SteadyExecutor>(), std::move(intake));
  ASSERT_TRUE(engine.submit(request(1, 5), kStart));
  static_cast<void>(engine.poll(kStart));
  ASSERT_TRUE(engine.submit(request(2, 1), kStart));
  static_cast<void>(engine.poll(kStart + kStep));
  static_cast<void>(engine.poll(kStart + 2 * kStep));
  ASSERT_TRUE(engine.submit(request(3, 1), kStart + 2 * kStep));
  EXPECT_EQ(told, (std::vector<Duration>{Duration::zero(), Duration::zero(), kStep}));
}

}  // namespace
}  // namespace kvist::engine::engine_driver_test
