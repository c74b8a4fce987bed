// Core and timed executor together, in virtual time.
#include <gtest/gtest.h>

#include "engine/driver.h"
#include "kvist/base/random.h"
#include "kvist/engine/core.h"
#include "kvist/engine/timed/timed_executor.h"
#include "kvist/text/chat.h"
#include "kvist/text/prose.h"

namespace kvist::engine::virtual_time_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const tokenizer::ByteTokenizer kTokenizer;

/// Round numbers: 10 ms a step, 10 us a prompt token, 100 us a sequence, 1 us a KV token.
TimedExecutor::Options timed(double mean, double deviation) {
  const spec::StepTimeSpec step_time{.fixed = milliseconds(10),
                                     .per_prefill_token = microseconds(10),
                                     .per_sequence = microseconds(100),
                                     .per_kv_token_ns = 1'000};
  return {.step_time = perfmodel::StepTimeModel(step_time),
          .output_length = {.mean_tokens = mean, .standard_deviation_tokens = deviation},
          .time_scale = 1};
}

CoreOptions core_options(std::uint32_t depth) {
  return {.model = "m",
          .block_size = 16,
          .kv_blocks = 2'000,
          .max_batch_size = 8,
          .max_num_tokens = 512,
          .max_model_len = 4'096,
          .max_waiting = 64,
          .max_steps_in_flight = depth};
}

Request chat_request(std::uint64_t id, const std::vector<text::ChatMessage>& messages, std::uint32_t max_tokens) {
  return {.id = RequestId(id),
          .prompt = text::SimpleChatTemplate().render(messages, kTokenizer),
          .max_tokens = max_tokens,
          .seed = mix_seed({1, id}),
          .ignore_eos = false,
          .cache_salt = {}};
}

std::string text_of(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) kTokenizer.decode(token, text);
  return text;
}

TEST(VirtualTime, OneRequestTakesTheSumOfItsSteps) {
  TimedExecutor executor(timed(3, 0), kTokenizer);
  SteppedCore driver(core_options(1), executor);
  ASSERT_TRUE(driver.core.submit(request_of(1, prompt_of(600), 100)));
  driver.run_until_idle();
  const Seen& seen = driver.seen[RequestId(1)];
  EXPECT_EQ(seen.finish, FinishReason::kStop);
  EXPECT_EQ(seen.tokens.size(), 3U);
  // 512 tokens: 10 + 5.12 + 0.1 + 0.512 ms; the other 88: 10 + 0.88 + 0.1 + 0.6 ms.
  EXPECT_EQ(seen.first_token, TimePoint(microseconds(15'732 + 11'580)));
  // Decodes at contexts of 601 and 602: 10 + 0.1 + 0.601 and 0.602 ms.
  EXPECT_EQ(seen.last_output, TimePoint(microseconds(15'732 + 11'580 + 10'701 + 10'702)));
}

TEST(VirtualTime, ACachedPrefixBringsTheFirstTokenSooner) {
  TimedExecutor executor(timed(50, 0), kTokenizer);
  SteppedCore driver(core_options(1), executor);
  std::vector<text::ChatMessage> messages = {{"user", text::prose(1, 2'000)}};
  ASSERT_TRUE(driver.core.submit(chat_request(1, messages, 100)));
  driver.run_until_idle();
  const Seen first = driver.seen[RequestId(1)];
  messages.push_back({"assistant", text_of(first.tokens)});
  messages.push_back({"user", "And then what happened?"});
  const TimePoint start = driver.now;
  ASSERT_TRUE(driver.core.submit(chat_request(2, messages, 100)));
  driver.run_until_idle();
  const Seen& second = driver.seen[RequestId(2)];
  // All but the last block or so of the first turn, answer included.
  EXPECT_GE(second.cached_tokens + 2 * 16, first.prompt_tokens + first.tokens.size());
  EXPECT_EQ(second.cached_tokens % 16, 0U);
  EXPECT_LT(second.first_token - start, (first.first_token - TimePoint()) / 3);
}

TEST(VirtualTime, ChunkingBoundsWhatALongPromptCostsTheOthers) {
  TimedExecutor executor(timed(400, 0), kTokenizer);
  SteppedCore driver(core_options(1), executor);
  ASSERT_TRUE(driver.core.submit(request_of(1, prompt_of(100), 100)));
  driver.run(5);
  ASSERT_TRUE(driver.core.submit(request_of(2, prompt_of(3'000, 1'000), 10)));
  const std::size_t before = driver.plans.size();
  driver.run(6);
  for (std::size_t i = before; i < driver.plans.size(); ++i) {
    ASSERT_EQ(driver.plans[i].sequences.size(), 2U);
    EXPECT_EQ(driver.plans[i].sequences.front().id, RequestId(1));  // a token in every step
    EXPECT_LE(executor.duration(driver.plans[i]).value(), milliseconds(20));
  }
  driver.run_until_idle();
}

class Depth : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(Depth, ManyConversationsGiveTheSameAnswersAtAnyDepthAndLoad) {
  TimedExecutor executor(timed(60, 20), kTokenizer);
  SteppedCore driver(core_options(GetParam()), executor);
  for (std::uint64_t id = 1; id <= 30; ++id) {
    ASSERT_TRUE(driver.core.submit(chat_request(id, {{"user", text::prose(id % 3, 200 + id)}}, 80)));
    driver.run(static_cast<int>(id % 4));
  }
  driver.run_until_idle();
  for (std::uint64_t id = 1; id <= 30; ++id) {
    TimedExecutor alone_executor(timed(60, 20), kTokenizer);
    SteppedCore alone(core_options(1), alone_executor);
    ASSERT_TRUE(alone.core.submit(chat_request(id, {{"user", text::prose(id % 3, 200 + id)}}, 80)));
    alone.run_until_idle();
    const Seen& seen = driver.seen[RequestId(id)];
    EXPECT_EQ(text_of(seen.tokens), text_of(alone.seen[RequestId(id)].tokens));
    EXPECT_EQ(seen.finish, alone.seen[RequestId(id)].finish);
    EXPECT_LE(seen.tokens.size(), 80U);
    EXPECT_EQ(seen.finish == FinishReason::kStop,
              seen.tokens.back() == kTokenizer.special(tokenizer::SpecialToken::kEndOfTurn));
  }
}

INSTANTIATE_TEST_SUITE_P(VirtualTime, Depth, ::testing::Values(1U, 2U));

TEST(VirtualTime, SpeculationChangesTheTimesAndNoAnswer) {
  const auto run = [](std::vector<double> acceptance, std::unique_ptr<SpeculationPolicy> policy) {
    TimedExecutor::Options options = timed(60, 20);
    options.acceptance = std::move(acceptance);
    TimedExecutor executor(std::move(options), kTokenizer);
    SteppedCore driver(core_options(1), executor, std::move(policy));
    for (std::uint64_t id = 1; id <= 20; ++id) {
      EXPECT_TRUE(driver.core.submit(chat_request(id, {{"user", text::prose(id % 3, 200 + id)}}, 80)));
      driver.run(static_cast<int>(id % 3));
    }
    driver.run_until_idle();
    std::map<RequestId, std::string> answers;
    for (const auto& [id, seen] : driver.seen) answers[id] = text_of(seen.tokens);
    return std::pair(answers, driver.core.stats());
  };
  const auto [plain, plain_stats] = run({}, nullptr);
  const auto [drafted, stats] = run({0.8, 0.6}, std::make_unique<FixedDraftLength>(3));
  EXPECT_EQ(plain, drafted);
  EXPECT_EQ(stats.generated_tokens, plain_stats.generated_tokens);
  EXPECT_LT(stats.steps, plain_stats.steps * 2 / 3);
  EXPECT_GT(stats.accepted_draft_tokens, stats.draft_tokens / 3);
}

TEST(VirtualTime, TwoRunsAreEqualToTheNanosecond) {
  const auto run = [] {
    TimedExecutor executor(timed(60, 20), kTokenizer);
    SteppedCore driver(core_options(2), executor);
    for (std::uint64_t id = 1; id <= 20; ++id) {
      EXPECT_TRUE(driver.core.submit(chat_request(id, {{"user", text::prose(id % 4, 700)}}, 80)));
      driver.run(1 + static_cast<int>(id % 3));
      if (id % 7 == 0) driver.core.abort(RequestId(id - 1));
    }
    driver.run_until_idle();
    std::vector<std::pair<TimePoint, TimePoint>> times;
    for (const auto& [id, seen] : driver.seen) times.emplace_back(seen.first_token, seen.last_output);
    return std::pair(times, driver.events);
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace kvist::engine::virtual_time_test
