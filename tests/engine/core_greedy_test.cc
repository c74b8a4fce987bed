// Greedy admission: what does not fit later is preempted and computed again, and nobody sees it in an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine::core_greedy_test {
namespace {

using ::testing::ElementsAre;

CoreOptions options(std::uint32_t kv_blocks, std::uint32_t steps_in_flight = 1) {
  return {.model = "m",
          .block_size = 4,
          .kv_blocks = kv_blocks,
          .max_batch_size = 4,
          .max_num_tokens = 16,
          .max_model_len = 128,
          .max_waiting = 8,
          .max_steps_in_flight = steps_in_flight,
          .admission = spec::AdmissionKind::kGreedy};
}

class CoreGreedyTest : public ::testing::Test {
 protected:
  void make(const CoreOptions& core) { driver = std::make_unique<SteppedCore>(core, executor); }
  void submit(std::uint64_t id, std::uint32_t prompt, std::uint32_t max_tokens) {
    ASSERT_TRUE(
        driver->core.submit(request_of(id, prompt_of(prompt, static_cast<std::uint32_t>(100 * id)), max_tokens)));
  }
  [[nodiscard]] const Seen& seen(std::uint64_t id) { return driver->seen[RequestId(id)]; }
  [[nodiscard]] CoreStats stats() const { return driver->core.stats(); }
  /// "id:first+count" per sequence of the last plan, with 'p' for prefill.
  [[nodiscard]] std::string last_plan() const {
    std::string text;
    for (const SequenceStep& step : driver->plans.back().sequences) {
      text += (text.empty() ? "" : " ") + std::to_string(step.id.value()) + ":" + std::to_string(step.first) + "+" +
              std::to_string(step.count) + (step.is_prefill ? "p" : "");
    }
    return text;
  }
  void expect_answer(std::uint64_t id, std::uint32_t tokens) {
    std::vector<TokenId> all;
    for (std::uint32_t i = 0; i < tokens; ++i) all.push_back(scripted_token(id, i));
    EXPECT_EQ(seen(id).tokens, all) << id;
    EXPECT_EQ(seen(id).finish, FinishReason::kLength) << id;
  }

  ScriptedExecutor executor;
  std::unique_ptr<SteppedCore> driver;
};

TEST_F(CoreGreedyTest, AdmitsWhatReservationWouldHoldBack) {
  make(options(8));
  submit(1, 8, 17);  // 6 blocks in the end, 2 now
  submit(2, 8, 17);
  driver->run(1);
  EXPECT_EQ(stats().running, 2U);
  EXPECT_EQ(stats().kv_blocks_used, 4U);
}

TEST_F(CoreGreedyTest, TheLastAdmittedGivesWayAndComesBackThroughTheCache) {
  make(options(8));
  submit(1, 8, 17);
  submit(2, 8, 17);
  // After the prompts and 8 decodes each, 8 blocks are full. The first then takes one of the second's.
  driver->run(9);
  EXPECT_EQ(stats().kv_blocks_used, 8U);
  EXPECT_EQ(stats().preemptions, 0U);
  driver->run(1);
  EXPECT_EQ(last_plan(), "1:16+1");
  EXPECT_EQ(stats().preemptions, 1U);
  EXPECT_EQ(stats().running, 1U);
  EXPECT_EQ(stats().waiting, 1U);
  EXPECT_EQ(stats().prefill_backlog_tokens, 17U);  // all that the second has, its 9 tokens of the answer too
  // It needs 5 blocks and the first leaves it 3, then 2. When the first has ended, two of its own are still there.
  driver->run(7);
  EXPECT_EQ(seen(1).finish, FinishReason::kLength);
  driver->run(1);
  EXPECT_EQ(last_plan(), "2:8+9p");
  driver->run_until_idle();
  expect_answer(1, 17);
  expect_answer(2, 17);
  EXPECT_THAT(executor.admitted(), ElementsAre(RequestId(1), RequestId(2)));  // once each
  EXPECT_EQ(seen(2).cached_tokens, 0U);  // what its client is told is about its prompt and its first admission
  EXPECT_EQ(stats().prompt_tokens, 16U);
  EXPECT_EQ(stats().generated_tokens, 34U);
}

TEST_F(CoreGreedyTest, GoesBackToTheFrontOfTheQueueInOrderOfArrival) {
  make(options(9));
  submit(1, 8, 25);
  submit(2, 8, 25);
  submit(3, 8, 25);
  for (std::uint64_t id = 4; id <= 6; ++id) submit(id, 30, 2);  // never in before those that gave way
  std::vector<RequestId> order;
  while (driver->step()) {
    const CoreStats now = stats();
    EXPECT_LE(now.kv_blocks_used, 9U);
  }
  driver->run_until_idle();
  for (std::uint64_t id = 1; id <= 3; ++id) expect_answer(id, 25);
  EXPECT_GE(stats().preemptions, 2U);
  EXPECT_LE(seen(1).last_output, seen(2).last_output);
  EXPECT_LE(seen(2).last_output, seen(3).last_output);
  EXPECT_LE(seen(3).first_token, seen(4).first_token);
}

TEST_F(CoreGreedyTest, NothingIsAdmittedInAStepThatPreempted) {
  make(options(8));
  submit(1, 8, 17);
  submit(2, 8, 17);
  driver->run(9);
  submit(3, 2, 1);  // would fit into what the second gives back
  driver->run(1);
  EXPECT_EQ(stats().preemptions, 1U);
  EXPECT_EQ(last_plan(), "1:16+1");
  driver->run_until_idle();
}

TEST_F(CoreGreedyTest, ASequenceThatIsLastGivesWayItself) {
  make(options(8));
  submit(1, 15, 3);   // 4 blocks; one more with its second token
  submit(2, 13, 17);  // 4 blocks, and the last to come
  driver->run(3);
  driver->run_until_idle();
  EXPECT_GE(stats().preemptions, 1U);
  expect_answer(1, 3);
  expect_answer(2, 17);
}

TEST_F(CoreGreedyTest, APromptInChunksIsPreemptedAndGoesOn) {
  make(options(12));
  submit(1, 16, 30);  // grows to 12 blocks
  submit(2, 40, 2);   // 10 blocks, in chunks
  driver->run_until_idle();
  EXPECT_GE(stats().preemptions, 1U);
  expect_answer(1, 30);
  expect_answer(2, 2);
}

TEST_F(CoreGreedyTest, WithStepsUnderWayTheBlocksComeBackWhenTheyEnd) {
  make(options(8, 2));
  submit(1, 8, 17);
  submit(2, 8, 17);
  while (stats().preemptions == 0) {
    while (driver->begin()) {
    }
    if (stats().preemptions == 0) driver->end();
    ASSERT_LT(driver->plans.size(), 30U);
  }
  // The second is computed by a step that is under way, so the first sits out and nothing is free yet.
  EXPECT_EQ(stats().kv_blocks_used, 8U);
  EXPECT_EQ(stats().running, 2U);
  EXPECT_EQ(stats().waiting, 0U);
  const std::size_t before = seen(2).tokens.size();
  while (!driver->under_way.empty()) driver->end();
  EXPECT_GT(seen(2).tokens.size(), before);  // its sample counts
  EXPECT_EQ(stats().waiting, 1U);
  driver->run_until_idle();
  expect_answer(1, 17);
  expect_answer(2, 17);
}

class CoreGreedyAbortTest : public CoreGreedyTest, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(CoreGreedyAbortTest, AbortOfAPreemptedRequestFreesItsSlot) {
  make(options(8, GetParam()));
  submit(1, 8, 17);
  submit(2, 8, 17);
  while (stats().preemptions == 0) {
    while (driver->begin()) {
    }
    if (stats().preemptions == 0) driver->end();
  }
  driver->core.abort(RequestId(2));
  driver->run_until_idle();
  EXPECT_EQ(seen(2).finish, FinishReason::kAborted);
  EXPECT_EQ(seen(2).outputs, seen(2).tokens.size() + 1);
  EXPECT_EQ(executor.live(), 0U);
  expect_answer(1, 17);
}

INSTANTIATE_TEST_SUITE_P(Depth, CoreGreedyAbortTest, ::testing::Values(1U, 2U));

}  // namespace
}  // namespace kvist::engine::core_greedy_test
