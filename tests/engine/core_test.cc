#include "kvist/engine/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/kv/block_hash.h"

namespace kvist::engine::core_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CoreOptions kOptions{.model = "m",
                           .block_size = 4,
                           .kv_blocks = 64,
                           .max_batch_size = 4,
                           .max_num_tokens = 16,
                           .max_model_len = 128,
                           .max_waiting = 8,
                           .max_steps_in_flight = 1};

class CoreTest : public ::testing::Test {
 protected:
  void make(CoreOptions options) { driver = std::make_unique<SteppedCore>(options, executor); }
  void SetUp() override { make(kOptions); }

  void submit(std::uint64_t id, std::vector<TokenId> prompt, std::uint32_t max_tokens) {
    ASSERT_TRUE(core().submit(request_of(id, std::move(prompt), max_tokens)));
  }
  [[nodiscard]] Core& core() { return driver->core; }
  [[nodiscard]] const Seen& seen(std::uint64_t id) { return driver->seen[RequestId(id)]; }
  /// "id:first+count" per sequence of a plan, with 's' where it samples and 'p' for prefill.
  [[nodiscard]] std::string plan(std::size_t index) const {
    std::string text;
    for (const SequenceStep& step : driver->plans.at(index).sequences) {
      text += (text.empty() ? "" : " ") + std::to_string(step.id.value()) + ":" + std::to_string(step.first) + "+" +
              std::to_string(step.count) + (step.is_prefill ? "p" : "") + (step.samples ? "s" : "");
    }
    return text;
  }
  [[nodiscard]] std::vector<TokenId> answer(std::uint64_t id, std::uint32_t tokens) const {
    std::vector<TokenId> all;
    for (std::uint32_t i = 0; i < tokens; ++i) all.push_back(scripted_token(id, i));
    return all;
  }

  ScriptedExecutor executor;
  std::unique_ptr<SteppedCore> driver;
};

TEST_F(CoreTest, IsIdleWithoutRequests) {
  EXPECT_TRUE(core().idle());
  StepPlan plan;
  EXPECT_FALSE(core().begin_step(TimePoint(), plan));
  EXPECT_TRUE(plan.sequences.empty());
  StepOutputs outputs;
  core().take_outputs(outputs);
  EXPECT_TRUE(outputs.outputs.empty());
}

TEST_F(CoreTest, RunsOneRequestFromPromptToLimit) {
  submit(1, prompt_of(6), 3);
  EXPECT_FALSE(core().idle());
  driver->run_until_idle();
  ASSERT_EQ(driver->plans.size(), 3U);
  EXPECT_EQ(plan(0), "1:0+6ps");
  EXPECT_EQ(plan(1), "1:6+1s");
  EXPECT_EQ(plan(2), "1:7+1s");  // the last token of the answer is never computed
  EXPECT_EQ(seen(1).tokens, answer(1, 3));
  EXPECT_EQ(seen(1).finish, FinishReason::kLength);
  EXPECT_EQ(seen(1).prompt_tokens, 6U);
  EXPECT_EQ(executor.live(), 0U);
}

TEST_F(CoreTest, EndsWhereTheModelEndsItsAnswer) {
  executor.set_length(RequestId(1), 2);
  submit(1, prompt_of(6), 10);
  driver->run_until_idle();
  EXPECT_EQ(seen(1).tokens, answer(1, 2));
  EXPECT_EQ(seen(1).finish, FinishReason::kStop);
}

TEST_F(CoreTest, AnEndAtTheLimitIsAStop) {
  executor.set_length(RequestId(1), 3);
  submit(1, prompt_of(6), 3);
  driver->run_until_idle();
  EXPECT_EQ(seen(1).tokens.size(), 3U);
  EXPECT_EQ(seen(1).finish, FinishReason::kStop);
}

TEST_F(CoreTest, GoesOnPastAnEndThatIsToBeIgnored) {
  executor.set_length(RequestId(1), 2);
  Request request = request_of(1, prompt_of(6), 5);
  request.ignore_eos = true;
  ASSERT_TRUE(core().submit(std::move(request)));
  driver->run_until_idle();
  EXPECT_EQ(seen(1).tokens, answer(1, 5));
  EXPECT_EQ(seen(1).finish, FinishReason::kLength);
}

TEST_F(CoreTest, CutsAnAnswerAtTheContextLimit) {
  submit(1, prompt_of(126), 100);
  driver->run_until_idle();
  EXPECT_EQ(seen(1).tokens.size(), 2U);
  EXPECT_EQ(seen(1).finish, FinishReason::kLength);
}

TEST_F(CoreTest, SplitsAPromptIntoChunksOfTheBudget) {
  submit(1, prompt_of(35), 2);
  driver->run_until_idle();
  ASSERT_EQ(driver->plans.size(), 4U);
  EXPECT_EQ(plan(0), "1:0+16p");
  EXPECT_EQ(plan(1), "1:16+16p");
  EXPECT_EQ(plan(2), "1:32+3ps");
  EXPECT_EQ(plan(3), "1:35+1s");
  EXPECT_EQ(driver->plans[1].load.kv_tokens_read, 32U);
  EXPECT_EQ(seen(1).outputs, 2U);
  EXPECT_EQ(core().stats().prefilled_tokens, 35U);
}

TEST_F(CoreTest, GivesDecodesTheirTokenBeforePromptsShareTheRest) {
  submit(1, prompt_of(4, 100), 8);
  driver->run(1);
  submit(2, prompt_of(20, 200), 8);
  submit(3, prompt_of(20, 300), 8);
  driver->run(3);
  EXPECT_EQ(plan(1), "1:4+1s 2:0+15p");
  EXPECT_EQ(plan(2), "1:5+1s 2:15+5ps 3:0+10p");
  EXPECT_EQ(plan(3), "1:6+1s 2:20+1s 3:10+10ps");
  driver->run_until_idle();
}

TEST_F(CoreTest, FillsItsSlotsInOrderOfArrival) {
  for (std::uint64_t id = 1; id <= 6; ++id)
    submit(id, prompt_of(2, static_cast<std::uint32_t>(100 * id)), id == 2 ? 1 : 3);
  driver->run(1);
  EXPECT_EQ(plan(0), "1:0+2ps 2:0+2ps 3:0+2ps 4:0+2ps");
  EXPECT_EQ(core().stats().running, 3U);
  EXPECT_EQ(core().stats().waiting, 2U);
  driver->run(1);
  EXPECT_EQ(plan(1), "1:2+1s 3:2+1s 4:2+1s 5:0+2ps");
  driver->run_until_idle();
  EXPECT_THAT(executor.admitted(),
              ElementsAre(RequestId(1), RequestId(2), RequestId(3), RequestId(4), RequestId(5), RequestId(6)));
}

TEST_F(CoreTest, TakesWaitingRequestsByPriorityThenByArrival) {
  CoreOptions options = kOptions;
  options.max_batch_size = 1;
  make(options);
  for (const auto& [id, priority] : {std::pair(1, 0), {2, 0}, {3, 5}, {4, -1}, {5, 0}, {6, -1}}) {
    Request request = request_of(static_cast<std::uint64_t>(id), prompt_of(2, static_cast<std::uint32_t>(100 * id)), 2);
    request.priority = priority;
    ASSERT_TRUE(core().submit(std::move(request)));
    if (id == 1) driver->run(1);
  }
  driver->run_until_idle();
  EXPECT_THAT(executor.admitted(),
              ElementsAre(RequestId(1), RequestId(4), RequestId(6), RequestId(2), RequestId(5), RequestId(3)))
      << "what runs goes on";
}

TEST_F(CoreTest, ARequestThatDoesNotFitIsNotPassedOver) {
  CoreOptions options = kOptions;
  options.kv_blocks = 8;
  make(options);
  submit(1, prompt_of(8, 100), 9);   // 16 tokens are computed at most: 4 blocks
  submit(2, prompt_of(8, 200), 13);  // 20 tokens: 5 blocks, do not fit beside the first
  submit(3, prompt_of(2, 300), 1);   // 1 block would fit
  driver->run(1);
  EXPECT_EQ(plan(0), "1:0+8ps");
  EXPECT_EQ(core().stats().waiting, 2U);
  driver->run_until_idle();
  EXPECT_THAT(executor.admitted(), ElementsAre(RequestId(1), RequestId(2), RequestId(3)));
}

TEST_F(CoreTest, ReservesUpToTheLastBlockAndNotFurther) {
  CoreOptions options = kOptions;
  options.kv_blocks = 8;
  make(options);
  submit(1, prompt_of(8, 100), 9);  // 4 blocks
  submit(2, prompt_of(8, 200), 9);  // 4 blocks: both fit exactly
  driver->run(1);
  EXPECT_EQ(core().stats().running, 2U);
  EXPECT_EQ(core().stats().kv_blocks_used, 4U);  // reserved is not used
  driver->run_until_idle();
  EXPECT_EQ(seen(1).tokens.size(), 9U);
  EXPECT_EQ(seen(2).tokens.size(), 9U);
  EXPECT_EQ(core().stats().evictions, 0U);
}

TEST_F(CoreTest, TakesAPrefixFromTheCacheUpToTheLastWholeBlockBeforeTheEnd) {
  submit(1, prompt_of(12), 1);
  driver->run_until_idle();
  submit(2, prompt_of(12), 1);  // 3 whole blocks are cached; the last token must be computed
  submit(3, prompt_of(13), 1);
  driver->run_until_idle();
  EXPECT_EQ(plan(1), "2:8+4ps 3:12+1ps");
  EXPECT_EQ(seen(1).cached_tokens, 0U);
  EXPECT_EQ(seen(2).cached_tokens, 8U);
  EXPECT_EQ(seen(3).cached_tokens, 12U);
  const CoreStats stats = core().stats();
  EXPECT_EQ(stats.prompt_tokens, 37U);
  EXPECT_EQ(stats.prefix_query_tokens, 37U);
  EXPECT_EQ(stats.prefix_hit_tokens, 20U);
  EXPECT_EQ(stats.prefilled_tokens, 17U);
}

TEST_F(CoreTest, BlocksAreFindableOnlyWhenTheirStepHasEnded) {
  submit(1, prompt_of(9), 4);
  ASSERT_TRUE(driver->begin());
  EXPECT_TRUE(core().findable_blocks().empty());
  driver->end();
  EXPECT_EQ(core().findable_blocks().size(), 2U);
  submit(2, prompt_of(9), 4);
  driver->run_until_idle();
  EXPECT_EQ(seen(2).cached_tokens, 8U);
}

TEST_F(CoreTest, TheNextTurnFindsPromptAndAnswerOfTheLast) {
  executor.set_length(RequestId(1), 8);
  submit(1, prompt_of(6), 20);
  driver->run_until_idle();
  std::vector<TokenId> next = prompt_of(6);
  for (const TokenId token : seen(1).tokens) next.push_back(token);
  for (std::uint32_t i = 0; i < 5; ++i) next.emplace_back(500 + i);
  submit(2, next, 1);
  driver->run_until_idle();
  // 13 of the 14 tokens before were computed: 3 blocks.
  EXPECT_EQ(seen(2).cached_tokens, 12U);
}

TEST_F(CoreTest, OneEventPerRequestAndStepWithConsecutiveBlocks) {
  submit(1, prompt_of(20), 6);
  driver->run_until_idle();
  ASSERT_EQ(driver->events.size(), 3U);
  const auto& first = std::get<kv::BlockStored>(driver->events[0]);  // 16 tokens
  EXPECT_EQ(first.hashes.size(), 4U);
  EXPECT_FALSE(first.parent);
  EXPECT_EQ(first.tokens, prompt_of(16));
  EXPECT_EQ(first.block_size, 4U);
  const auto& second = std::get<kv::BlockStored>(driver->events[1]);  // the rest of the prompt
  EXPECT_EQ(second.hashes.size(), 1U);
  EXPECT_EQ(second.parent, first.hashes.back());
  const auto& third = std::get<kv::BlockStored>(driver->events[2]);  // 4 tokens of the answer
  EXPECT_EQ(third.hashes.size(), 1U);
  EXPECT_EQ(third.parent, second.hashes.back());
  EXPECT_EQ(third.tokens, answer(1, 4));
}

TEST_F(CoreTest, RequestsOfOtherSaltsOrModelsShareNothing) {
  Request salted = request_of(1, prompt_of(12), 1);
  salted.cache_salt = "tenant-a";
  ASSERT_TRUE(core().submit(std::move(salted)));
  driver->run_until_idle();
  submit(2, prompt_of(12), 1);
  driver->run_until_idle();
  EXPECT_EQ(seen(2).cached_tokens, 0U);

  const BlockCopies names = sorted(core().findable_blocks());
  CoreOptions options = kOptions;
  options.model = "other";
  make(options);
  submit(2, prompt_of(12), 1);
  driver->run_until_idle();
  for (const auto& [name, copies] : sorted(core().findable_blocks())) EXPECT_FALSE(names.contains(name));
}

TEST_F(CoreTest, EventsOfSaltedRequestsCarryTheSaltOnTheFirstBlock) {
  // Without it a subscriber would file them under the names of unsalted prompts: false hits between tenants.
  Request salted = request_of(1, prompt_of(12), 6);
  salted.cache_salt = "tenant-a";
  ASSERT_TRUE(core().submit(std::move(salted)));
  driver->run_until_idle();
  ASSERT_GE(driver->events.size(), 2U);
  EXPECT_EQ(std::get<kv::BlockStored>(driver->events[0]).cache_salt, "tenant-a");
  EXPECT_EQ(std::get<kv::BlockStored>(driver->events[1]).cache_salt, "");  // its parent carries the chain on
}

TEST_F(CoreTest, NamesAreThoseOfTheHashModule) {
  submit(1, prompt_of(12), 1);
  driver->run_until_idle();
  const auto expected = kv::hash_blocks(kv::root_hash({.model = "m", .lora = {}, .cache_salt = {}}), prompt_of(12), 4);
  const auto findable = core().findable_blocks();
  ASSERT_EQ(findable.size(), 3U);
  for (const kv::BlockHash name : expected) EXPECT_TRUE(findable.contains(name));
}

TEST_F(CoreTest, TwinsThatComputeTheSamePrefixKeepACopyEach) {
  submit(1, prompt_of(8), 1);
  submit(2, prompt_of(8), 1);
  driver->run_until_idle();
  const auto findable = core().findable_blocks();
  EXPECT_EQ(findable.size(), 2U);
  for (const auto& [name, copies] : findable) EXPECT_EQ(copies, 2U);
}

TEST_F(CoreTest, EvictsTailsBeforeSharedHeads) {
  CoreOptions options = kOptions;
  options.kv_blocks = 6;
  make(options);
  submit(1, prompt_of(16, 100), 1);
  driver->run_until_idle();          // 4 findable blocks, 2 fresh ones
  submit(2, prompt_of(16, 200), 1);  // takes the fresh ones and the last two of the first
  driver->run_until_idle();
  EXPECT_EQ(core().stats().evictions, 2U);
  submit(3, prompt_of(16, 100), 1);
  driver->run_until_idle();
  EXPECT_EQ(seen(3).cached_tokens, 8U);
}

TEST_F(CoreTest, AHitOnFreeBlocksCountsAgainstTheReservation) {
  CoreOptions options = kOptions;
  options.kv_blocks = 6;
  make(options);
  submit(1, prompt_of(16, 100), 1);
  driver->run_until_idle();
  submit(2, prompt_of(10, 200), 1);  // 3 blocks: 3 stay allocatable
  submit(3, prompt_of(16, 100), 1);  // would hold 3 cached ones and allocate 1: must wait
  driver->run(1);
  EXPECT_EQ(core().stats().waiting, 1U);
  driver->run_until_idle();
  EXPECT_EQ(seen(3).finish, FinishReason::kLength);
}

TEST_F(CoreTest, ABlockedRequestStartsAsSoonAsItsTwinHasComputedEnough) {
  CoreOptions options = kOptions;
  options.kv_blocks = 8;
  options.max_num_tokens = 10;
  make(options);
  submit(1, prompt_of(16), 9);  // 6 blocks in the end, 4 for its prompt
  submit(2, prompt_of(17), 5);  // 6 blocks; for those that it does not share 2 are left
  driver->run(2);
  EXPECT_EQ(plan(1), "1:10+6ps");  // two blocks of the prefix are there
  EXPECT_EQ(core().stats().waiting, 1U);
  driver->run(1);
  EXPECT_EQ(plan(2), "1:16+1s 2:16+1ps");
  driver->run_until_idle();
  EXPECT_EQ(seen(2).cached_tokens, 16U);
}

TEST_F(CoreTest, RefusesWhatItCanNeverServeWithTheNumbers) {
  Result<void> result = core().submit(request_of(1, {}, 1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);

  result = core().submit(request_of(1, prompt_of(3), 0));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);

  result = core().submit(request_of(1, prompt_of(128), 1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(result.error().message, HasSubstr("128"));

  CoreOptions options = kOptions;
  options.kv_blocks = 8;
  make(options);
  result = core().submit(request_of(1, prompt_of(20), 14));  // 33 tokens: 9 blocks
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(result.error().message, HasSubstr("20 prompt tokens"));
  EXPECT_THAT(result.error().message, HasSubstr("9 KV blocks"));
  EXPECT_THAT(result.error().message, HasSubstr("there are 8"));
  EXPECT_TRUE(core().submit(request_of(1, prompt_of(20), 13)));  // 32 tokens fit exactly
  driver->run_until_idle();
  EXPECT_EQ(seen(1).tokens.size(), 13U);
}

TEST_F(CoreTest, RefusesAnIdThatIsInUse) {
  submit(1, prompt_of(3), 1);
  const Result<void> result = core().submit(request_of(1, prompt_of(3), 1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  driver->run_until_idle();
  EXPECT_EQ(seen(1).outputs, 1U);
}

TEST_F(CoreTest, RefusesMoreThanItsQueueHolds) {
  for (std::uint64_t id = 1; id <= 8; ++id) submit(id, prompt_of(2), 1);
  const Result<void> result = core().submit(request_of(9, prompt_of(2), 1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(result.error().message, HasSubstr("8"));
  driver->run(1);
  EXPECT_TRUE(core().submit(request_of(9, prompt_of(2), 1)));
  driver->run_until_idle();
}

TEST_F(CoreTest, ForgetsItsPrefixesOnlyWhileNothingRuns) {
  submit(1, prompt_of(12), 2);
  ASSERT_TRUE(driver->begin());
  EXPECT_FALSE(core().reset_prefix_cache());
  driver->end();
  EXPECT_FALSE(core().reset_prefix_cache());
  driver->run_until_idle();
  EXPECT_EQ(core().findable_blocks().size(), 3U);
  EXPECT_TRUE(core().reset_prefix_cache());
  driver->check_events();
  EXPECT_TRUE(std::holds_alternative<kv::AllBlocksCleared>(driver->events.back()));
  submit(2, prompt_of(12), 1);
  driver->run_until_idle();
  EXPECT_EQ(seen(2).cached_tokens, 0U);
}

TEST_F(CoreTest, ResetBetweenQueueingAndAdmissionIsSeen) {
  submit(1, prompt_of(12), 1);
  driver->run_until_idle();
  submit(2, prompt_of(12), 1);
  EXPECT_TRUE(core().reset_prefix_cache());
  driver->run_until_idle();
  EXPECT_EQ(seen(2).cached_tokens, 0U);
}

TEST_F(CoreTest, CountsWhatItDoes) {
  executor.set_length(RequestId(1), 2);
  submit(1, prompt_of(6, 100), 5);
  submit(2, prompt_of(6, 200), 3);
  driver->run(1);
  CoreStats stats = core().stats();
  EXPECT_EQ(stats.running, 2U);
  EXPECT_EQ(stats.waiting, 0U);
  EXPECT_EQ(stats.kv_blocks_total, 64U);
  EXPECT_EQ(stats.kv_blocks_used, 4U);
  EXPECT_EQ(stats.steps, 1U);
  EXPECT_EQ(stats.generated_tokens, 2U);
  driver->run_until_idle();
  stats = core().stats();
  EXPECT_EQ(stats.running, 0U);
  EXPECT_EQ(stats.kv_blocks_used, 0U);
  EXPECT_EQ(stats.steps, 3U);
  EXPECT_EQ(stats.generated_tokens, 5U);
  EXPECT_EQ(stats.prompt_tokens, 12U);
  EXPECT_EQ(stats.finished, 2U);
  EXPECT_EQ(stats.aborted, 0U);
  EXPECT_EQ(stats.preemptions, 0U);
}

TEST_F(CoreTest, CountsItsStepsByWhatTheyCompute) {
  submit(1, prompt_of(6, 100), 4);
  driver->run(2);  // its prompt, then a token of its answer
  submit(2, prompt_of(6, 200), 2);
  driver->run_until_idle();  // one answers beside the other's prompt, then both answer
  const CoreStats stats = core().stats();
  EXPECT_EQ(stats.steps, 4U);
  EXPECT_EQ(stats.prefill_steps, 1U);
  EXPECT_EQ(stats.mixed_steps, 1U);
}

TEST_F(CoreTest, ABudgetBelowTheBatchServesTheOldestFirst) {
  CoreOptions options = kOptions;
  options.max_num_tokens = 2;
  make(options);
  for (std::uint64_t id = 1; id <= 3; ++id) submit(id, prompt_of(1, static_cast<std::uint32_t>(id)), 2);
  driver->run_until_idle();
  EXPECT_EQ(plan(0), "1:0+1ps 2:0+1ps");
  EXPECT_EQ(plan(1), "1:1+1s 2:1+1s");
  EXPECT_EQ(plan(2), "3:0+1ps");
}

TEST_F(CoreTest, DeathOnAStepThatIsNotTheOldest) {
  submit(1, prompt_of(3), 2);
  StepPlan plan;
  ASSERT_TRUE(core().begin_step(TimePoint(), plan));
  StepPlan other = plan;
  other.id = StepId(7);
  StepOutputs outputs;
  EXPECT_DEATH(core().end_step(other, {}, outputs), "out of order");
  EXPECT_DEATH(core().end_step(plan, {}, outputs), "sample is missing");
  const StepResult two{.sampled = {{.id = RequestId(1), .tokens = {TokenId(1), TokenId(2)}, .ends = false}}};
  EXPECT_DEATH(core().end_step(plan, two, outputs), "1 to 1 tokens");
}

}  // namespace
}  // namespace kvist::engine::core_test
