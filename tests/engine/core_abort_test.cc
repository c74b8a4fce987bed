// Aborts at every phase of a request, with one and with two steps under way.
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_abort_test {
namespace {

class CoreAbortTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  CoreAbortTest() : driver(options(), executor) {}

  static CoreOptions options() {
    return {.model = "m",
            .block_size = 4,
            .kv_blocks = 16,
            .max_batch_size = 2,
            .max_num_tokens = 16,
            .max_model_len = 128,
            .max_waiting = 8,
            .max_steps_in_flight = GetParam()};
  }
  void submit(std::uint64_t id, std::uint32_t prompt, std::uint32_t max_tokens) {
    ASSERT_TRUE(
        driver.core.submit(request_of(id, prompt_of(prompt, static_cast<std::uint32_t>(100 * id)), max_tokens)));
  }
  void abort(std::uint64_t id) { driver.core.abort(RequestId(id)); }
  [[nodiscard]] const Seen& seen(std::uint64_t id) { return driver.seen[RequestId(id)]; }
  void expect_aborted(std::uint64_t id) {
    EXPECT_EQ(seen(id).finish, FinishReason::kAborted);
    EXPECT_EQ(executor.live(), 0U);
    EXPECT_EQ(driver.core.stats().kv_blocks_used, 0U);
    EXPECT_EQ(driver.core.stats().aborted, 1U);
  }

  ScriptedExecutor executor;
  SteppedCore driver;
};

TEST_P(CoreAbortTest, OfAnUnknownRequestDoesNothing) {
  abort(99);
  StepOutputs outputs;
  driver.core.take_outputs(outputs);
  EXPECT_TRUE(outputs.outputs.empty());
  EXPECT_EQ(driver.core.stats().aborted, 0U);
}

TEST_P(CoreAbortTest, OfAWaitingRequestAnswersAtOnce) {
  submit(1, 5, 4);
  abort(1);
  EXPECT_TRUE(driver.core.idle());
  driver.take_outputs();
  expect_aborted(1);
  EXPECT_EQ(seen(1).prompt_tokens, 5U);
  EXPECT_EQ(seen(1).cached_tokens, 0U);
  EXPECT_TRUE(seen(1).tokens.empty());
  EXPECT_TRUE(executor.admitted().empty());
  EXPECT_EQ(driver.core.stats().prompt_tokens, 0U);
}

TEST_P(CoreAbortTest, OfAWaitingRequestLeavesTheOrderOfTheOthers) {
  for (std::uint64_t id = 1; id <= 5; ++id) submit(id, 2, 2);
  abort(3);
  driver.run_until_idle();
  EXPECT_EQ(executor.admitted(), (std::vector<RequestId>{RequestId(1), RequestId(2), RequestId(4), RequestId(5)}));
}

TEST_P(CoreAbortTest, DuringAPrefillStepHoldsTheBlocksUntilItEnds) {
  submit(1, 40, 4);
  ASSERT_TRUE(driver.begin());
  abort(1);
  EXPECT_GE(driver.core.stats().kv_blocks_used, 4U);
  EXPECT_EQ(executor.live(), 1U);
  EXPECT_FALSE(driver.core.idle());
  EXPECT_FALSE(driver.begin());  // nothing more is planned for it
  driver.end();
  expect_aborted(1);
  EXPECT_TRUE(driver.core.idle());
  // What the step computed is whole and can be found.
  EXPECT_EQ(driver.core.findable_blocks().size(), 4U);
  driver.check_events();
}

TEST_P(CoreAbortTest, BetweenPrefillChunks) {
  submit(1, 40, 4);
  ASSERT_TRUE(driver.begin());
  driver.end();
  abort(1);
  driver.run_until_idle();
  expect_aborted(1);
  EXPECT_EQ(driver.plans.size(), 1U);
}

TEST_P(CoreAbortTest, DuringADecodeStepDiscardsItsSample) {
  submit(1, 5, 9);
  ASSERT_TRUE(driver.begin());
  driver.end();
  ASSERT_TRUE(driver.begin());
  abort(1);
  driver.end();
  EXPECT_EQ(seen(1).tokens.size(), 1U);
  driver.run_until_idle();
  expect_aborted(1);
}

TEST_P(CoreAbortTest, BetweenDecodeStepsFreesAtOnce) {
  submit(1, 5, 9);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(driver.begin());
    driver.end();
  }
  abort(1);
  EXPECT_EQ(driver.core.stats().kv_blocks_used, 0U);
  driver.take_outputs();
  expect_aborted(1);
  EXPECT_EQ(seen(1).tokens.size(), 3U);
}

TEST_P(CoreAbortTest, WithAllStepsUnderWayHoldsSlotAndBlocksUntilTheLastEnds) {
  submit(1, 5, 9);
  while (driver.begin()) {
  }
  ASSERT_EQ(driver.under_way.size(), GetParam());
  abort(1);
  for (std::uint32_t i = 0; i < GetParam(); ++i) {
    EXPECT_EQ(executor.live(), 1U);
    EXPECT_EQ(driver.core.stats().running, 1U);
    EXPECT_GT(driver.core.stats().kv_blocks_used, 0U);
    driver.end();
  }
  expect_aborted(1);
  EXPECT_TRUE(seen(1).tokens.empty());
  driver.run_until_idle();
}

TEST_P(CoreAbortTest, TwiceOrAfterTheEndAnswersOnce) {
  submit(1, 5, 9);
  while (driver.begin()) {
  }
  abort(1);
  abort(1);
  driver.run_until_idle();
  abort(1);
  driver.take_outputs();
  EXPECT_EQ(seen(1).outputs, 1U);
  expect_aborted(1);

  submit(2, 5, 1);
  driver.run_until_idle();
  abort(2);
  driver.take_outputs();
  EXPECT_EQ(seen(2).finish, FinishReason::kLength);
}

TEST_P(CoreAbortTest, GivesBackWhatWasReservedSoThatTheNextCanStart) {
  submit(1, 8, 57);  // 16 blocks: all of them
  submit(2, 8, 57);
  driver.run(1);
  EXPECT_EQ(driver.core.stats().waiting, 1U);
  abort(1);
  driver.run_until_idle();
  EXPECT_EQ(seen(1).finish, FinishReason::kAborted);
  EXPECT_EQ(seen(2).tokens.size(), 57U);
}

TEST_P(CoreAbortTest, OfOneLeavesTheAnswersOfTheOthersAlone) {
  submit(1, 8, 12);
  submit(2, 8, 12);
  driver.run(4);
  abort(1);
  driver.run_until_idle();
  std::vector<TokenId> expected;
  for (std::uint32_t i = 0; i < 12; ++i) expected.push_back(scripted_token(2, i));
  EXPECT_EQ(seen(2).tokens, expected);
}

TEST_P(CoreAbortTest, LetsTheSameIdBeUsedAgainAfterItLeft) {
  submit(1, 5, 9);
  driver.run(1);
  abort(1);
  driver.run_until_idle();
  driver.seen.clear();
  submit(1, 5, 2);
  driver.run_until_idle();
  EXPECT_EQ(seen(1).finish, FinishReason::kLength);
}

INSTANTIATE_TEST_SUITE_P(Depth, CoreAbortTest, ::testing::Values(1U, 2U));

}  // namespace
}  // namespace kvist::engine::core_abort_test
