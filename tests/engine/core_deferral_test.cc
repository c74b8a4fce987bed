// Prefixes that two prompts of one step share: the second waits for them (deferral), finds them, or computes them
// again.
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_deferral_test {
namespace {

class CoreDeferralTest : public ::testing::Test {
 protected:
  CoreDeferralTest() : driver(options(true), executor) {}

  static CoreOptions options(bool deferral) {
    return {.model = "m",
            .block_size = 4,
            .kv_blocks = 256,
            .max_batch_size = 8,
            .max_num_tokens = 64,
            .max_model_len = 256,
            .max_waiting = 16,
            .prefix_deferral = deferral};
  }
  static Request twin(std::uint64_t id, std::uint32_t prompt = 41) { return request_of(id, prompt_of(prompt), 3); }

  ScriptedExecutor executor;
  SteppedCore driver;
};

TEST_F(CoreDeferralTest, EqualPromptsPrefillOnce) {
  ScriptedExecutor plain_executor;
  SteppedCore plain(options(false), plain_executor);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    ASSERT_TRUE(driver.core.submit(twin(id)));
    ASSERT_TRUE(plain.core.submit(twin(id)));
  }
  driver.run_until_idle();
  plain.run_until_idle();
  // 41 tokens once; the others compute what follows their 10 cached blocks: one token each.
  EXPECT_EQ(driver.core.stats().prefilled_tokens, 41U + 4U);
  EXPECT_EQ(driver.core.stats().prefix_hit_tokens, 4U * 40U);
  for (std::uint64_t id = 2; id <= 5; ++id) EXPECT_EQ(driver.seen[RequestId(id)].cached_tokens, 40U);
  // Without it they are computed beside each other, as far as the budget goes.
  EXPECT_GT(plain.core.stats().prefilled_tokens, 41U + 4U);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    EXPECT_EQ(driver.seen[RequestId(id)].tokens, plain.seen[RequestId(id)].tokens);
  }
}

TEST_F(CoreDeferralTest, ThoseBehindItGoAhead) {
  ASSERT_TRUE(driver.core.submit(twin(1, 120)));  // two steps
  ASSERT_TRUE(driver.core.submit(twin(2, 120)));
  ASSERT_TRUE(driver.core.submit(request_of(3, prompt_of(20, 1'000), 3)));
  driver.run(2);
  EXPECT_EQ(executor.admitted(), (std::vector<RequestId>{RequestId(1), RequestId(3)}));
  EXPECT_EQ(driver.core.stats().waiting, 1U);
  driver.run_until_idle();
  EXPECT_EQ(driver.core.stats().prefilled_tokens, 120U + 4U + 20U);
}

TEST_F(CoreDeferralTest, OnlyTheSharedPartIsWaitedFor) {
  std::vector<TokenId> longer = prompt_of(40);
  for (std::uint32_t i = 0; i < 21; ++i) longer.emplace_back(2'000 + i);
  ASSERT_TRUE(driver.core.submit(twin(1)));
  ASSERT_TRUE(driver.core.submit(request_of(2, longer, 3)));
  ASSERT_TRUE(driver.core.submit(twin(3, 3)));  // no complete block: nothing to wait for
  driver.run(1);
  EXPECT_EQ(executor.admitted(), (std::vector<RequestId>{RequestId(1), RequestId(3)}));
  driver.run_until_idle();
  EXPECT_EQ(driver.seen[RequestId(2)].cached_tokens, 40U);
  EXPECT_EQ(driver.core.stats().prefilled_tokens, 41U + 3U + 21U);
}

TEST_F(CoreDeferralTest, AnAbortedPrefillIsTakenOverByTheNext) {
  for (std::uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(driver.core.submit(twin(id, 120)));
  ASSERT_TRUE(driver.begin());
  driver.core.abort(RequestId(1));
  driver.run_until_idle();
  EXPECT_EQ(driver.seen[RequestId(1)].finish, FinishReason::kAborted);
  EXPECT_EQ(driver.seen[RequestId(3)].tokens.size(), 3U);
  EXPECT_EQ(driver.seen[RequestId(3)].cached_tokens, 116U);
}

// A step is planned while the one before it is under way: what that one computes is not there yet, and its prompts are
// past their context phase.
TEST_F(CoreDeferralTest, WithOverlapTheStepBehindComputesOnceMore) {
  CoreOptions overlap = options(true);
  overlap.max_steps_in_flight = 2;
  SteppedCore overlapped(overlap, executor);
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(overlapped.core.submit(twin(id)));
  overlapped.run_until_idle();
  EXPECT_EQ(overlapped.core.stats().prefilled_tokens, 2U * 41U + 3U);
  EXPECT_EQ(overlapped.seen[RequestId(2)].cached_tokens, 0U);
  for (std::uint64_t id = 3; id <= 5; ++id) EXPECT_EQ(overlapped.seen[RequestId(id)].cached_tokens, 40U);
}

// The next chunk of a prompt is computed by the step that is planned, so those who wait for it go on waiting.
TEST_F(CoreDeferralTest, WithOverlapAPromptOfTwoStepsIsWaitedFor) {
  CoreOptions overlap = options(true);
  overlap.max_steps_in_flight = 2;
  SteppedCore overlapped(overlap, executor);
  for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(overlapped.core.submit(twin(id, 120)));
  ASSERT_TRUE(overlapped.begin());
  ASSERT_TRUE(overlapped.begin());
  EXPECT_EQ(executor.admitted(), (std::vector<RequestId>{RequestId(1)}));
  overlapped.run_until_idle();
  // The first chunk is there when the third step is planned, the second is not.
  EXPECT_EQ(overlapped.seen[RequestId(2)].cached_tokens, 64U);
}

class CorePlannedPrefixTest : public CoreDeferralTest, public ::testing::WithParamInterface<std::uint32_t> {
 protected:
  CorePlannedPrefixTest() : driver(planned(), executor) {}

  static CoreOptions planned() {
    CoreOptions options = CoreDeferralTest::options(false);
    options.prefix_when_planned = true;
    options.max_steps_in_flight = GetParam();
    return options;
  }

  SteppedCore driver;
};

TEST_P(CorePlannedPrefixTest, PromptsOfOneStepShare) {
  for (std::uint64_t id = 1; id <= 5; ++id) ASSERT_TRUE(driver.core.submit(twin(id)));
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(executor.admitted().size(), 5U);
  driver.run_until_idle();
  EXPECT_EQ(driver.core.stats().prefilled_tokens, 41U + 4U);
  for (std::uint64_t id = 2; id <= 5; ++id) {
    EXPECT_EQ(driver.seen[RequestId(id)].cached_tokens, 40U);
    EXPECT_EQ(driver.seen[RequestId(id)].tokens.size(), 3U);
  }
}

// Of a prompt of two steps the first one's share is found, and no more than that.
TEST_P(CorePlannedPrefixTest, OnlyWhatIsPlannedIsFound) {
  for (std::uint64_t id = 1; id <= 2; ++id) ASSERT_TRUE(driver.core.submit(twin(id, 100)));
  driver.run_until_idle();
  // The second joins the step that computes the first one's last 36 tokens, and there all of it is planned before.
  EXPECT_EQ(driver.seen[RequestId(2)].cached_tokens, 96U);
  EXPECT_EQ(driver.core.stats().prefilled_tokens, 100U + 4U);
}

TEST_P(CorePlannedPrefixTest, EventsTellOfBlocksWhenAStepHasEnded) {
  ASSERT_TRUE(driver.core.submit(twin(1)));
  ASSERT_TRUE(driver.begin());
  EXPECT_EQ(driver.core.findable_blocks().size(), 10U);
  StepOutputs between;
  driver.core.take_outputs(between);
  EXPECT_TRUE(between.events.empty());
  driver.run_until_idle();  // which holds all events against what is findable
}

INSTANTIATE_TEST_SUITE_P(Depth, CorePlannedPrefixTest, ::testing::Values(1U, 2U));

}  // namespace
}  // namespace kvist::engine::core_deferral_test
