#include <gtest/gtest.h>

#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_block_tables_test {
namespace {

// Each block of a plan belongs to its sequence at that place: what is written for a token is found there in later
// steps, also by another request that shares the prefix.
TEST(CoreBlockTables, NameTheSamePlaceForATokenInEveryStep) {
  ScriptedExecutor executor;
  Core core(
      {.model = "m", .block_size = 4, .kv_blocks = 64, .max_batch_size = 4, .max_num_tokens = 6, .block_tables = true},
      executor);
  std::vector<TokenId> prompt;
  for (std::uint32_t i = 0; i < 11; ++i) prompt.emplace_back(i);
  StepPlan plan;
  StepResult result;
  StepOutputs outputs;
  std::map<RequestId, std::vector<kv::BlockId>> tables;
  const auto run = [&](RequestId id) {
    ASSERT_TRUE(core.submit({.id = id, .prompt = prompt, .max_tokens = 6, .cache_salt = {}}).has_value());
    while (core.begin_step({}, plan)) {
      ASSERT_EQ(plan.block_tables.size(), plan.sequences.size());
      for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
        const SequenceStep& step = plan.sequences[i];
        const std::span<const kv::BlockId> blocks = plan.block_tables[i];
        ASSERT_GE(blocks.size() * 4, step.first + step.count) << "room for all that is computed";
        std::vector<kv::BlockId>& known = tables[step.id];
        ASSERT_TRUE(std::equal(known.begin(), known.end(), blocks.begin()));
        known.assign(blocks.begin(), blocks.end());
      }
      executor.finish(plan, result);
      core.end_step(plan, result, outputs);
    }
  };
  run(RequestId(1));
  run(RequestId(2));
  ASSERT_EQ(tables[RequestId(1)].size(), 4U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(tables[RequestId(2)][i], tables[RequestId(1)][i]) << "a cached block";
  EXPECT_NE(tables[RequestId(2)][2], tables[RequestId(1)][2]) << "its last token is computed, and its block with it";
}

}  // namespace
}  // namespace kvist::engine::core_block_tables_test
