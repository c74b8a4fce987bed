// Prompts whose blocks somebody has named before.
#include <gtest/gtest.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"
#include "kvist/kv/block_hash.h"

namespace kvist::engine::core_names_test {
namespace {

const CoreOptions kOptions{.model = "m", .block_size = 4};

class CoreNames : public ::testing::Test {
 protected:
  void make(const CoreOptions& options) { driver = std::make_unique<SteppedCore>(options, executor); }
  void SetUp() override { make(kOptions); }
  void run(Request request) {
    ASSERT_TRUE(core().submit(std::move(request)));
    driver->run_until_idle();
  }
  [[nodiscard]] Core& core() { return driver->core; }

  ScriptedExecutor executor;
  std::unique_ptr<SteppedCore> driver;
};

TEST_F(CoreNames, TakesTheBlockHashesThatWhoSubmitsHasComputed) {
  const kv::BlockHash root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
  Request request = request_of(1, prompt_of(10), 7);
  const auto known = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, request.prompt, 4));
  ASSERT_EQ(known->size(), 2U);
  request.prompt_blocks = known;
  run(std::move(request));
  const auto given = core().findable_blocks();

  make(kOptions);
  run(request_of(1, prompt_of(10), 7));
  EXPECT_EQ(given, core().findable_blocks()) << "the answer's are named behind them";
  EXPECT_EQ(given.size(), 4U);
  EXPECT_TRUE(given.contains(known->back()));
}

// Prompts that end with a block, behind one and in the middle of one, each asked for twice.
TEST_F(CoreNames, TakesNamesInPlaceOfTokens) {
  const auto run_six = [this](bool names) {
    CoreOptions options = kOptions;
    options.tells_tokens = !names;
    make(options);
    for (std::uint64_t id = 1; id <= 6; ++id) {
      Request request = request_of(id, prompt_of(7 + static_cast<std::uint32_t>((id - 1) % 3)), 7);
      if (names) {
        const kv::BlockHash root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
        auto blocks = kv::hash_blocks(root, request.prompt, 4);
        request.named_tokens = static_cast<std::uint32_t>(4 * blocks.size());
        request.prompt.erase(request.prompt.begin(), request.prompt.begin() + request.named_tokens);
        request.prompt_blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::move(blocks));
      }
      run(std::move(request));
    }
    return std::tuple(core().findable_blocks(), driver->plans, driver->seen);
  };
  const auto [blocks, plans, answers] = run_six(false);
  const auto [named_blocks, named_plans, named_answers] = run_six(true);
  EXPECT_EQ(blocks, named_blocks);
  EXPECT_EQ(plans.size(), named_plans.size());
  for (const auto& [id, one] : answers) {
    const Seen& other = named_answers.at(id);
    EXPECT_EQ(one.tokens, other.tokens) << id.value();
    EXPECT_EQ(one.prompt_tokens, other.prompt_tokens) << id.value();
    EXPECT_EQ(one.cached_tokens, other.cached_tokens) << id.value();
  }
  EXPECT_EQ(named_answers.at(RequestId(5)).cached_tokens, 4U) << "the last token is never taken from the cache";
}

}  // namespace
}  // namespace kvist::engine::core_names_test
