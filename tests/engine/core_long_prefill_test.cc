// Prompts that are computed side by side, because a step gives a long one only so much.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_long_prefill_test {
namespace {

CoreOptions options(std::uint32_t threshold) {
  return {.model = "m",
          .block_size = 4,
          .kv_blocks = 512,
          .max_batch_size = 8,
          .max_num_tokens = 64,
          .max_model_len = 1'024,
          .max_waiting = 16,
          .long_prefill_token_threshold = threshold};
}

/// The tokens that each step computed of a request, while it was a prompt.
std::vector<std::uint32_t> parts_of(const SteppedCore& driver, std::uint64_t id) {
  std::vector<std::uint32_t> parts;
  for (const StepPlan& plan : driver.plans) {
    for (const SequenceStep& step : plan.sequences)
      if (step.id == RequestId(id) && step.is_prefill) parts.push_back(step.count);
  }
  return parts;
}

TEST(CoreLongPrefillTest, OneThatIsAloneGetsTheWholeBudget) {
  ScriptedExecutor executor;
  SteppedCore driver(options(16), executor);
  ASSERT_TRUE(driver.core.submit(request_of(1, prompt_of(150), 3)));
  driver.run_until_idle();
  EXPECT_EQ(parts_of(driver, 1), (std::vector<std::uint32_t>{64, 64, 22}));
}

TEST(CoreLongPrefillTest, OthersGetWhatTheLongOneLeaves) {
  ScriptedExecutor executor;
  SteppedCore driver(options(16), executor);
  ASSERT_TRUE(driver.core.submit(request_of(1, prompt_of(100), 1)));
  ASSERT_TRUE(driver.core.submit(request_of(2, prompt_of(100, 1'000), 1)));
  ASSERT_TRUE(driver.core.submit(request_of(3, prompt_of(10, 2'000), 1)));
  driver.run_until_idle();
  // Both long ones have the same part of each step. The short one is through at once, and the last one that is left is
  // alone in its last steps.
  EXPECT_EQ(parts_of(driver, 1), (std::vector<std::uint32_t>{16, 16, 16, 16, 16, 16, 4}));
  EXPECT_EQ(parts_of(driver, 2), (std::vector<std::uint32_t>{16, 16, 16, 16, 16, 16, 4}));
  EXPECT_EQ(parts_of(driver, 3), (std::vector<std::uint32_t>{10}));
  EXPECT_LT(driver.seen[RequestId(3)].first_token, driver.seen[RequestId(1)].first_token);
}

TEST(CoreLongPrefillTest, TheBudgetStaysTheMost) {
  ScriptedExecutor executor;
  SteppedCore driver(options(40), executor);
  ASSERT_TRUE(driver.core.submit(request_of(1, prompt_of(80), 1)));
  ASSERT_TRUE(driver.core.submit(request_of(2, prompt_of(80, 1'000), 1)));
  driver.run_until_idle();
  EXPECT_EQ(parts_of(driver, 1), (std::vector<std::uint32_t>{40, 40}));
  // 24 and 24 of the first two steps, and alone from then on.
  EXPECT_EQ(parts_of(driver, 2), (std::vector<std::uint32_t>{24, 24, 32}));
}

TEST(CoreLongPrefillTest, AnswersAreTheSame) {
  std::vector<std::vector<TokenId>> answers;
  for (const std::uint32_t threshold : {0U, 1U, 7U, 64U}) {
    ScriptedExecutor executor;
    SteppedCore driver(options(threshold), executor);
    for (std::uint64_t id = 1; id <= 6; ++id)
      ASSERT_TRUE(driver.core.submit(request_of(id, prompt_of(30 * static_cast<std::uint32_t>(id)), 9)));
    driver.run_until_idle();
    for (std::uint64_t id = 1; id <= 6; ++id) answers.push_back(driver.seen[RequestId(id)].tokens);
  }
  for (std::size_t i = 6; i < answers.size(); ++i) EXPECT_EQ(answers[i], answers[i % 6]);
}

}  // namespace
}  // namespace kvist::engine::core_long_prefill_test
