// Two texts with one hash: what one client's prompt left in the cache is not read in the place of another's.
#include "kvist/engine/block_contents.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/base/random.h"
#include "kvist/kv/block_hash.h"

namespace kvist::engine::block_contents_test {
namespace {

using Tokens = std::vector<TokenId>;

Tokens tokens(std::initializer_list<std::uint32_t> ids) {
  Tokens made;
  for (const std::uint32_t id : ids) made.emplace_back(id);
  return made;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The first blocks of prompts to a model "m", with one hash. For any block another one was found within eleven seconds,
// in a vocabulary of 1,280 tokens: a generalised birthday attack on the sum of products that XXH3 is.
const Tokens kOne = tokens({10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25});
const Tokens kOther = tokens({1199, 1044, 770, 364, 14, 15, 16, 17, 18, 19, 13, 358, 1174, 231, 1086, 658});
const Tokens kNext = tokens({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
const Tokens kTail = tokens({30, 31});

class BlockContentsTest : public ::testing::Test {
 protected:
  explicit BlockContentsTest(bool compares_tokens = true) {
    CoreOptions options{.model = "m", .block_size = 16, .kv_blocks = 64, .max_model_len = 256};
    options.compares_tokens = compares_tokens;
    core_ = std::make_unique<SteppedCore>(options, executor_);
  }
  // The tokens of the prompt that came from the cache.
  std::uint32_t cached(const Tokens& prompt) {
    submit(prompt);
    core_->run_until_idle();
    return core_->seen[RequestId(last_)].cached_tokens;
  }
  void submit(const Tokens& prompt) { ASSERT_TRUE(core_->core.submit(request_of(++last_, prompt + kTail, 1))); }

  ScriptedExecutor executor_;
  std::unique_ptr<SteppedCore> core_;
  std::uint64_t last_ = 0;
};

TEST_F(BlockContentsTest, ABlockWithAnotherTextIsNotUsed) {
  const kv::BlockHash root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
  ASSERT_EQ(kv::chain_hash(root, kOne), kv::chain_hash(root, kOther));
  EXPECT_EQ(cached(kOther), 0U);
  EXPECT_EQ(cached(kOne), 0U);
  EXPECT_EQ(cached(kOne), 16U) << "its own is found beside the other";
  EXPECT_EQ(cached(kOther), 16U);
}

TEST_F(BlockContentsTest, ABlockBehindAnotherTextIsNotUsed) {
  EXPECT_EQ(cached(kOther + kNext), 0U);
  EXPECT_EQ(cached(kOne), 0U);
  EXPECT_EQ(cached(kOne + kNext), 16U) << "the next block has the same tokens and the same hash";
  EXPECT_EQ(cached(kOne + kNext), 32U);
  EXPECT_EQ(cached(kOther + kNext), 32U);
}

TEST_F(BlockContentsTest, CopiesOfOneContentAreOne) {
  submit(kOne);
  submit(kOne);
  core_->run_until_idle();
  EXPECT_EQ(cached(kOne + kNext), 16U) << "behind either copy";
  EXPECT_EQ(cached(kOther), 0U);
  submit(kOne + kNext);
  submit(kOne + kNext + kNext);
  core_->run_until_idle();
  EXPECT_EQ(cached(kOne + kNext + kNext), 48U);
}

class TrustedHashes : public BlockContentsTest {
 protected:
  TrustedHashes() : BlockContentsTest(false) {}
};

TEST_F(TrustedHashes, AreWhatAnEngineWithoutMemoryNeeds) {
  EXPECT_EQ(cached(kOther), 0U);
  EXPECT_EQ(cached(kOne), 16U);
}

// Without collisions nothing changes: the same plans, step for step.
TEST(ComparedTokens, MissNothing) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto plans_of = [&](bool compares_tokens) {
      RandomStream random(seed);
      CoreOptions options{.model = "m",
                          .block_size = 4,
                          .kv_blocks = static_cast<std::uint32_t>(random.uniform_int(24, 60)),
                          .max_batch_size = 6,
                          .max_num_tokens = 24,
                          .max_model_len = 64};
      options.admission =
          random.uniform() < 0.5 ? spec::AdmissionKind::kGreedy : spec::AdmissionKind::kReserveToCompletion;
      options.max_steps_in_flight = random.uniform() < 0.5 ? 1 : 2;
      options.prefix_deferral = random.uniform() < 0.5;
      options.prefix_when_planned = random.uniform() < 0.5;
      options.compares_tokens = compares_tokens;
      ScriptedExecutor executor;
      SteppedCore core(options, executor);
      for (std::uint64_t id = 1; id <= 120; ++id) {
        Tokens prompt;
        for (std::int64_t left = random.uniform_int(1, 40); left > 0; --left)
          prompt.emplace_back(static_cast<std::uint32_t>(random.uniform() < 0.9 ? 1 : 2));
        EXPECT_TRUE(core.core.submit(request_of(id, prompt, static_cast<std::uint32_t>(random.uniform_int(1, 20)))));
        if (random.uniform() < 0.2) core.core.abort(RequestId(static_cast<std::uint64_t>(random.uniform_int(1, 120))));
        for (std::int64_t steps = random.uniform_int(0, 4); steps > 0; --steps) (void)core.step();
      }
      core.run_until_idle();
      std::vector<std::uint64_t> plans;
      for (const StepPlan& plan : core.plans)
        for (const SequenceStep& step : plan.sequences)
          plans.insert(plans.end(), {plan.id.value(), step.id.value(), step.first, step.count});
      EXPECT_GT(core.core.stats().prefix_hit_tokens, 0U);
      return plans;
    };
    ASSERT_EQ(plans_of(true), plans_of(false));
  }
}

}  // namespace
}  // namespace kvist::engine::block_contents_test
