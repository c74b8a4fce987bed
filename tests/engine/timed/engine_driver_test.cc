#include "kvist/engine/timed/engine_driver.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

namespace kvist::engine {
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
  EXPECT_EQ(engine.lateness(), Duration::zero());
}

TEST_F(EngineDriverTest, LatenessIsCountedButDoesNotAddUp) {
  EngineDriver engine = driver();
  ASSERT_TRUE(engine.submit(request(1, 20), kStart));
  static_cast<void>(engine.poll(kStart));
  for (int step = 1; step <= 19; ++step) {
    ASSERT_EQ(engine.next_wakeup(), kStart + step * kStep);
    EXPECT_EQ(engine.poll(kStart + step * kStep + milliseconds(3)).outputs.size(), 1U);
  }
  EXPECT_EQ(engine.lateness(), 19 * milliseconds(3));
  EXPECT_EQ(engine.resynchronisations(), 0U);
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
  EXPECT_EQ(engine.resynchronisations(), 1U);
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

}  // namespace
}  // namespace kvist::engine
