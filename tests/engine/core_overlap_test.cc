// Two steps under way: the second is planned before the first has brought its samples.
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_overlap_test {
namespace {

const CoreOptions kOptions{.model = "m",
                           .block_size = 4,
                           .kv_blocks = 64,
                           .max_batch_size = 2,
                           .max_num_tokens = 16,
                           .max_model_len = 128,
                           .max_waiting = 64,
                           .max_steps_in_flight = 2};

class CoreOverlapTest : public ::testing::Test {
 protected:
  CoreOverlapTest() : driver(kOptions, executor) {}
  void submit(std::uint64_t id, std::uint32_t prompt, std::uint32_t max_tokens) {
    ASSERT_TRUE(
        driver.core.submit(request_of(id, prompt_of(prompt, static_cast<std::uint32_t>(100 * id)), max_tokens)));
  }
  [[nodiscard]] const SequenceStep& only(std::size_t index) const {
    EXPECT_EQ(driver.plans.at(index).sequences.size(), 1U);
    return driver.plans.at(index).sequences.front();
  }

  ScriptedExecutor executor;
  SteppedCore driver;
};

TEST_F(CoreOverlapTest, CountsAPendingSampleAsKnown) {
  submit(1, 6, 5);
  ASSERT_TRUE(driver.begin());
  ASSERT_TRUE(driver.begin());
  EXPECT_FALSE(driver.begin());  // two are under way
  EXPECT_EQ(only(1).first, 6U);
  EXPECT_EQ(only(1).count, 1U);
  EXPECT_TRUE(only(1).samples);
  driver.run_until_idle();
  EXPECT_EQ(driver.seen[RequestId(1)].tokens.size(), 5U);
}

TEST_F(CoreOverlapTest, PlansNothingPastALimitItKnows) {
  submit(1, 6, 3);
  driver.run_until_idle();
  EXPECT_EQ(driver.plans.size(), 3U);
}

TEST_F(CoreOverlapTest, DiscardsWhatWasPlannedPastTheEndOfAnAnswer) {
  executor.set_length(RequestId(1), 3);
  submit(1, 6, 20);
  driver.run_until_idle();
  EXPECT_EQ(driver.plans.size(), 4U);  // one too many: the end was not known yet
  EXPECT_EQ(driver.seen[RequestId(1)].tokens.size(), 3U);
  EXPECT_EQ(driver.seen[RequestId(1)].finish, FinishReason::kStop);
  EXPECT_EQ(driver.core.stats().generated_tokens, 3U);
  EXPECT_EQ(driver.core.stats().finished, 1U);
  // The step past the end computed the last token itself, and so completed 9 tokens: 2 blocks.
  EXPECT_EQ(driver.core.findable_blocks().size(), 2U);
}

TEST_F(CoreOverlapTest, ChunksOfOnePromptFollowEachOtherWithoutWaiting) {
  submit(1, 40, 2);
  ASSERT_TRUE(driver.begin());
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(only(0).first, 0U);
  EXPECT_EQ(only(1).first, 16U);
  driver.end();
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(only(2).first, 32U);
  EXPECT_TRUE(only(2).samples);
  driver.run_until_idle();
  EXPECT_EQ(driver.core.stats().prefilled_tokens, 40U);
}

TEST_F(CoreOverlapTest, ARequestThatEndedKeepsItsSlotUntilItsLastStepEnds) {
  executor.set_length(RequestId(1), 1);
  submit(1, 4, 20);
  submit(2, 4, 20);
  submit(3, 4, 20);
  ASSERT_TRUE(driver.begin());  // 1 and 2, which take both slots
  ASSERT_TRUE(driver.begin());
  driver.end();  // 1 has ended, but the second step computes it
  EXPECT_EQ(driver.seen[RequestId(1)].finish, FinishReason::kStop);
  EXPECT_EQ(driver.core.stats().running, 2U);
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(only(2).id, RequestId(2));
  driver.end();
  EXPECT_EQ(executor.live(), 1U);
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(driver.plans.back().sequences.back().id, RequestId(3));
  driver.run_until_idle();
}

TEST_F(CoreOverlapTest, GivesTheSameAnswersAsOneStepAtATime) {
  CoreOptions one = kOptions;
  one.max_steps_in_flight = 1;
  ScriptedExecutor plain_executor;
  SteppedCore plain(one, plain_executor);
  for (std::uint64_t id = 1; id <= 40; ++id) {
    const auto prompt = static_cast<std::uint32_t>(1 + (id * 7) % 50);
    const auto max_tokens = static_cast<std::uint32_t>(1 + (id * 5) % 23);
    const auto length = static_cast<std::uint32_t>(1 + (id * 3) % 31);
    const Request request = request_of(id, prompt_of(prompt), max_tokens);
    executor.set_length(RequestId(id), length);
    plain_executor.set_length(RequestId(id), length);
    ASSERT_TRUE(driver.core.submit(request));
    ASSERT_TRUE(plain.core.submit(request));
  }
  driver.run_until_idle();
  plain.run_until_idle();
  for (std::uint64_t id = 1; id <= 40; ++id) {
    EXPECT_EQ(driver.seen[RequestId(id)].tokens, plain.seen[RequestId(id)].tokens);
    EXPECT_EQ(driver.seen[RequestId(id)].finish, plain.seen[RequestId(id)].finish);
  }
}

}  // namespace
}  // namespace kvist::engine::core_overlap_test
