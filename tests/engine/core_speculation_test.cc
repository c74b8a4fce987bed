// Drafts: several tokens a step, the rejected ones rolled back, and the same answers as without.
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_speculation_test {
namespace {

CoreOptions options(std::uint32_t steps_in_flight) {
  return {.model = "m",
          .block_size = 4,
          .kv_blocks = 64,
          .max_batch_size = 4,
          .max_num_tokens = 16,
          .max_model_len = 128,
          .max_waiting = 64,
          .max_steps_in_flight = steps_in_flight};
}

class CoreSpeculationTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  CoreSpeculationTest() { make(3, GetParam()); }
  void make(std::uint32_t drafts, std::uint32_t steps_in_flight) {
    driver =
        std::make_unique<SteppedCore>(options(steps_in_flight), executor, std::make_unique<FixedDraftLength>(drafts));
  }
  void submit(std::uint64_t id, std::uint32_t prompt, std::uint32_t max_tokens) {
    ASSERT_TRUE(
        driver->core.submit(request_of(id, prompt_of(prompt, static_cast<std::uint32_t>(100 * id)), max_tokens)));
  }
  void expect_answer(std::uint64_t id, std::uint32_t tokens) {
    std::vector<TokenId> all;
    for (std::uint32_t i = 0; i < tokens; ++i) all.push_back(scripted_token(id, i));
    EXPECT_EQ(driver->seen[RequestId(id)].tokens, all) << id;
  }
  /// "first+count/drafts" of the only sequence of each plan.
  [[nodiscard]] std::vector<std::string> plans() const {
    std::vector<std::string> texts;
    for (const StepPlan& plan : driver->plans) {
      const SequenceStep& step = plan.sequences.front();
      texts.push_back(std::to_string(step.first) + "+" + std::to_string(step.count) + "/" +
                      std::to_string(step.drafts));
    }
    return texts;
  }
  [[nodiscard]] CoreStats stats() const { return driver->core.stats(); }

  ScriptedExecutor executor;
  std::unique_ptr<SteppedCore> driver;
};

TEST_P(CoreSpeculationTest, AcceptedDraftsComeWithTheTokenAfterThem) {
  executor.set_accepted(2);
  submit(1, 6, 10);
  driver->run_until_idle();
  // 1 token from the prompt, then 3 a step. The last step drafts no further than the answer can go.
  EXPECT_EQ(plans(), (std::vector<std::string>{"0+6/0", "6+4/3", "9+4/3", "12+3/2"}));
  expect_answer(1, 10);
  EXPECT_EQ(driver->seen[RequestId(1)].outputs, 4U);  // those of a step are one output
  EXPECT_EQ(driver->seen[RequestId(1)].finish, FinishReason::kLength);
  EXPECT_EQ(stats().draft_tokens, 8U);
  EXPECT_EQ(stats().accepted_draft_tokens, 6U);
  EXPECT_EQ(stats().generated_tokens, 10U);
}

TEST_P(CoreSpeculationTest, RejectedDraftsAreRolledBackAndNeverCached) {
  submit(1, 6, 6);
  driver->run_until_idle();
  EXPECT_EQ(plans(), (std::vector<std::string>{"0+6/0", "6+4/3", "7+4/3", "8+3/2", "9+2/1", "10+1/0"}));
  expect_answer(1, 6);
  EXPECT_EQ(stats().draft_tokens, 9U);
  EXPECT_EQ(stats().accepted_draft_tokens, 0U);
  // 11 tokens were computed for good: 2 blocks of the 3 that the drafts touched.
  EXPECT_EQ(driver->core.findable_blocks().size(), 2U);
}

TEST_P(CoreSpeculationTest, AnEndWithinARunCutsIt) {
  executor.set_accepted(3);
  executor.set_length(RequestId(1), 7);
  submit(1, 6, 40);
  driver->run_until_idle();
  expect_answer(1, 7);  // 1 + 4 + 2 of 4
  EXPECT_EQ(driver->seen[RequestId(1)].finish, FinishReason::kStop);
  EXPECT_EQ(driver->plans.size(), 3U);
}

TEST_P(CoreSpeculationTest, NothingBeginsBesideDrafts) {
  executor.set_accepted(1);
  submit(1, 6, 40);
  driver->run(1);
  while (driver->begin()) {
  }
  EXPECT_EQ(driver->plans.back().sequences.front().drafts, 3U);
  submit(2, 5, 40);
  EXPECT_FALSE(driver->begin());
  driver->run(3);
  // Both are in every step from now on: they never take turns.
  const std::size_t before = driver->plans.size();
  driver->run(10);
  for (std::size_t i = before; i < driver->plans.size(); ++i) EXPECT_EQ(driver->plans[i].sequences.size(), 2U);
  driver->run_until_idle();
  expect_answer(1, 40);
  expect_answer(2, 40);
}

TEST_P(CoreSpeculationTest, DraftsShareTheBudgetWithPrompts) {
  make(3, 1);
  executor.set_accepted(3);
  submit(1, 4, 60);
  submit(2, 4, 60);
  submit(3, 4, 60);
  driver->run(1);
  submit(4, 30, 2);
  driver->run(1);
  const StepPlan& plan = driver->plans.back();
  ASSERT_EQ(plan.sequences.size(), 4U);  // 3 x 4 tokens, and 4 left for the prompt
  EXPECT_EQ(plan.sequences.back().count, 4U);
  EXPECT_EQ(plan.load.draft_tokens, 9U);
  EXPECT_EQ(plan.load.draft_passes, 3U);
  EXPECT_EQ(plan.load.decode_sequences, 3U);
  EXPECT_EQ(plan.load.rows(), 16U);
  driver->run_until_idle();
}

TEST_P(CoreSpeculationTest, AnAbortDuringVerificationHoldsTheBlocksUntilItEnds) {
  executor.set_accepted(3);
  submit(1, 6, 20);
  driver->run(1);
  while (driver->begin()) {
  }
  driver->core.abort(RequestId(1));
  EXPECT_GT(stats().kv_blocks_used, 0U);
  driver->run_until_idle();
  EXPECT_EQ(driver->seen[RequestId(1)].finish, FinishReason::kAborted);
  EXPECT_EQ(executor.live(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Depth, CoreSpeculationTest, ::testing::Values(1U, 2U));

}  // namespace
}  // namespace kvist::engine::core_speculation_test
