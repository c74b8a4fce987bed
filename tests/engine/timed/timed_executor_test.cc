#include "kvist/engine/timed/timed_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "kvist/text/prose.h"

namespace kvist::engine::timed_executor_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const tokenizer::ByteTokenizer kTokenizer;

Request request_with(std::uint64_t id, std::uint64_t seed, bool ignore_eos = false) {
  return {.id = RequestId(id),
          .prompt = {TokenId(1)},
          .max_tokens = 100'000,
          .seed = seed,
          .ignore_eos = ignore_eos,
          .cache_salt = {}};
}

/// In these tests every request has the slot of its number.
SlotId slot_of(std::uint64_t id) {
  return SlotId(static_cast<std::uint32_t>(id));
}

void admit(TimedExecutor& executor, const Request& request) {
  executor.on_admit(slot_of(request.id.value()), request, request.prompt);
}

StepResult finish(TimedExecutor& executor, const StepPlan& plan) {
  StepResult result;
  executor.finish(plan, result);
  return result;
}

StepPlan sampling_step(std::initializer_list<std::uint64_t> ids) {
  StepPlan plan;
  for (const std::uint64_t id : ids) {
    plan.sequences.push_back({.id = RequestId(id), .slot = slot_of(id), .count = 1, .samples = true});
  }
  return plan;
}

struct Text {
  std::string text;
  std::uint32_t tokens = 0;  // with the end-of-turn token
  bool ended = false;
};

/// The first `most` tokens of an answer.
Text answer(TimedExecutor& executor, std::uint64_t id, std::uint32_t most) {
  Text answer;
  while (!answer.ended && answer.tokens < most) {
    const StepResult result = finish(executor, sampling_step({id}));
    EXPECT_EQ(result.sampled.size(), 1U);
    const SampledTokens& sampled = result.sampled.front();
    EXPECT_EQ(sampled.id, RequestId(id));
    EXPECT_EQ(sampled.tokens.size(), 1U);
    answer.ended = sampled.ends;
    ++answer.tokens;
    EXPECT_EQ(kTokenizer.is_special(sampled.tokens.front()), sampled.ends);
    kTokenizer.decode(sampled.tokens.front(), answer.text);
  }
  return answer;
}

TimedExecutor make(double mean, double deviation, double time_scale = 1) {
  return TimedExecutor({.step_time = perfmodel::StepTimeModel(spec::StepTimeSpec()),
                        .output_length = {.mean_tokens = mean, .standard_deviation_tokens = deviation},
                        .time_scale = time_scale},
                       kTokenizer);
}

TEST(TimedExecutor, AStepTakesWhatTheModelSaysDividedByTheScale) {
  StepPlan plan = sampling_step({1});
  plan.load = {.prefill_tokens = 100, .sequences = 4, .kv_tokens_read = 1'000};
  // 21 ms + 100 x 94 us + 4 x 70 us + 1,000 x 40 ns = 30.72 ms
  EXPECT_EQ(make(840, 100).duration(plan), nanoseconds(30'720'000));
  EXPECT_EQ(make(840, 100, 10).duration(plan), nanoseconds(3'072'000));
  EXPECT_EQ(make(840, 100, 0.5).duration(plan), nanoseconds(61'440'000));
  EXPECT_EQ(make(840, 100).duration(StepPlan()), Duration::zero());
}

TEST(TimedExecutor, AnAnswerIsProseThatEndsWithTheEndOfTurn) {
  TimedExecutor executor = make(300, 0);
  admit(executor, request_with(1, 5));
  const Text text = answer(executor, 1, 1'000);
  EXPECT_TRUE(text.ended);
  EXPECT_EQ(text.tokens, 300U);
  EXPECT_EQ(text.text.size(), 299U);
  EXPECT_NE(text.text.find(' '), std::string::npos);
  EXPECT_NE(text.text.find('.'), std::string::npos);
}

TEST(TimedExecutor, AnAnswerDependsOnItsSeedAlone) {
  TimedExecutor busy = make(200, 40);
  TimedExecutor alone = make(200, 40);
  for (std::uint64_t id = 1; id <= 8; ++id) admit(busy, request_with(id, 70 + id));
  admit(alone, request_with(99, 73));
  // In the first, the request's steps are mixed with those of others.
  std::string mixed;
  for (bool ended = false; !ended;) {
    const StepResult result = finish(busy, sampling_step({1, 3, 8}));
    ASSERT_EQ(result.sampled.size(), 3U);
    EXPECT_EQ(result.sampled[1].id, RequestId(3));
    kTokenizer.decode(result.sampled[1].tokens.front(), mixed);
    ended = result.sampled[1].ends;
  }
  EXPECT_EQ(mixed, answer(alone, 99, 10'000).text);
}

TEST(TimedExecutor, OtherSeedsGiveOtherTextsAndLengths) {
  TimedExecutor executor = make(200, 40);
  std::set<std::string> texts;
  std::set<std::uint32_t> lengths;
  for (std::uint64_t id = 1; id <= 50; ++id) {
    admit(executor, request_with(id, id));
    const Text text = answer(executor, id, 10'000);
    texts.insert(text.text);
    lengths.insert(text.tokens);
    executor.on_release(slot_of(id));
  }
  EXPECT_EQ(texts.size(), 50U);
  EXPECT_GT(lengths.size(), 30U);
}

TEST(TimedExecutor, LengthsHaveTheMomentsAskedFor) {
  TimedExecutor executor = make(100, 20);
  double sum = 0;
  double squares = 0;
  const int answers = 1'000;
  for (std::uint64_t id = 1; id <= answers; ++id) {
    admit(executor, request_with(id, id));
    const double length = answer(executor, id, 10'000).tokens;
    sum += length;
    squares += (length - 100) * (length - 100);
  }
  EXPECT_NEAR(sum / answers, 100, 2);
  EXPECT_NEAR(std::sqrt(squares / answers), 20, 2);
}

TEST(TimedExecutor, AnAnswerHasAtLeastOneTokenOfContent) {
  TimedExecutor executor = make(-50, 1);
  admit(executor, request_with(1, 1));
  const Text text = answer(executor, 1, 10);
  EXPECT_EQ(text.tokens, 2U);
  EXPECT_TRUE(text.ended);
  EXPECT_EQ(text.text.size(), 1U);
}

TEST(TimedExecutor, GoesOnPastItsLengthWhereTheEndIsToBeIgnored) {
  TimedExecutor executor = make(20, 0);
  admit(executor, request_with(1, 5, true));
  admit(executor, request_with(2, 5, false));
  const Text endless = answer(executor, 1, 3'000);
  EXPECT_FALSE(endless.ended);
  EXPECT_EQ(endless.text.size(), 3'000U);
  EXPECT_EQ(endless.text.substr(0, 19), answer(executor, 2, 3'000).text);
}

TEST(TimedExecutor, RepeatsTheEndForStepsPlannedPastIt) {
  TimedExecutor executor = make(2, 0);
  admit(executor, request_with(1, 5));
  EXPECT_EQ(answer(executor, 1, 10).tokens, 2U);
  const StepResult again = finish(executor, sampling_step({1}));
  ASSERT_EQ(again.sampled.size(), 1U);
  EXPECT_TRUE(again.sampled.front().ends);
}

/// The answer to request 1 with three drafts in each step, and how many tokens each step brought.
std::pair<std::string, std::vector<std::size_t>> drafted_answer(std::vector<double> acceptance, std::uint64_t seed) {
  TimedExecutor executor({.step_time = perfmodel::StepTimeModel(spec::StepTimeSpec()),
                          .output_length = {.mean_tokens = 400, .standard_deviation_tokens = 0},
                          .time_scale = 1,
                          .acceptance = std::move(acceptance)},
                         kTokenizer);
  admit(executor, request_with(1, seed));
  StepPlan plan = sampling_step({1});
  plan.sequences.front().count = 4;
  plan.sequences.front().drafts = 3;
  std::pair<std::string, std::vector<std::size_t>> answer;
  for (bool ended = false; !ended;) {
    const StepResult result = finish(executor, plan);
    const SampledTokens& sampled = result.sampled.front();
    for (const TokenId token : sampled.tokens) kTokenizer.decode(token, answer.first);
    answer.second.push_back(sampled.tokens.size());
    ended = sampled.ends;
  }
  return answer;
}

TEST(TimedExecutor, DraftsChangeTheStepsAndNeverTheAnswer) {
  TimedExecutor plain = make(400, 0);
  admit(plain, request_with(1, 5));
  const std::string expected = answer(plain, 1, 1'000).text;
  const auto [none, single] = drafted_answer({}, 5);
  EXPECT_EQ(none, expected);
  EXPECT_EQ(single, std::vector<std::size_t>(400, 1));
  const auto [all, fours] = drafted_answer({1.0}, 5);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(fours, std::vector<std::size_t>(100, 4));
  const auto [some, mixed] = drafted_answer({0.5}, 5);
  EXPECT_EQ(some, expected);
  EXPECT_EQ(std::accumulate(mixed.begin(), mixed.end(), std::size_t{0}), 400U);
}

TEST(TimedExecutor, AcceptanceIsPerPositionAndTheLastHoldsForTheRest) {
  // Draft 1 always, 2 with one half, 3 like 2: mean 1 + 1 + 0.5 + 0.25 tokens a step.
  std::size_t tokens = 0;
  std::size_t steps = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto [text, sizes] = drafted_answer({1.0, 0.5}, seed);
    tokens += std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    steps += sizes.size();
  }
  EXPECT_NEAR(static_cast<double>(tokens) / static_cast<double>(steps), 2.75, 0.05);
}

Request asking(std::uint64_t id, std::uint64_t seed, SamplingOptions options) {
  Request request = request_with(id, seed);
  request.sampling = std::make_shared<const SamplingOptions>(std::move(options));
  return request;
}

TEST(TimedExecutor, MinTokensHoldTheEndBackAndChangeNothingBeforeIt) {
  TimedExecutor executor = make(100, 0);
  admit(executor, request_with(1, 5));
  admit(executor, asking(2, 5, {.min_tokens = 150}));
  admit(executor, asking(3, 5, {.min_tokens = 50}));
  const Text plain = answer(executor, 1, 1'000);
  const Text longer = answer(executor, 2, 1'000);
  EXPECT_EQ(plain.tokens, 100U);
  EXPECT_EQ(longer.tokens, 151U);
  EXPECT_TRUE(longer.ended && longer.text.starts_with(plain.text));
  EXPECT_EQ(answer(executor, 3, 1'000).text, plain.text);
}

// Log probabilities of an answer's tokens.
std::vector<TokenLogprobs> logprobs_of(TimedExecutor& executor, std::uint64_t id, std::uint32_t drafts) {
  std::vector<TokenLogprobs> all;
  for (bool ended = false; !ended;) {
    StepPlan plan = sampling_step({id});
    plan.sequences.front().drafts = drafts;
    const StepResult result = finish(executor, plan);
    EXPECT_EQ(result.logprobs.size(), 1U);
    EXPECT_EQ(result.logprobs.front().id, RequestId(id));
    EXPECT_EQ(result.logprobs.front().tokens.size(), result.sampled.front().tokens.size());
    for (std::size_t i = 0; i < result.sampled.front().tokens.size(); ++i)
      EXPECT_EQ(result.logprobs.front().tokens[i].chosen.token, result.sampled.front().tokens[i]);
    all.insert(all.end(), result.logprobs.front().tokens.begin(), result.logprobs.front().tokens.end());
    ended = result.sampled.front().ends;
  }
  return all;
}

TEST(TimedExecutor, LogprobsArePlausibleAndDependOnTheSeedAndThePlaceAlone) {
  TimedExecutor executor({.step_time = perfmodel::StepTimeModel(spec::StepTimeSpec()),
                          .output_length = {.mean_tokens = 300, .standard_deviation_tokens = 0},
                          .acceptance = {0.5}},
                         kTokenizer);
  admit(executor, asking(1, 5, {.logprobs = 20}));
  admit(executor, asking(2, 5, {.logprobs = 20}));
  const std::vector<TokenLogprobs> all = logprobs_of(executor, 1, 0);
  EXPECT_EQ(all, logprobs_of(executor, 2, 3)) << "whatever steps they came in";
  ASSERT_EQ(all.size(), 300U);
  std::set<float> distinct;
  for (const TokenLogprobs& token : all) {
    distinct.insert(token.chosen.logprob);
    ASSERT_EQ(token.likeliest.size(), 20U);
    EXPECT_EQ(token.likeliest.front(), token.chosen);
    double sum = 0;
    std::set<TokenId> ids;
    for (std::size_t i = 0; i < token.likeliest.size(); ++i) {
      const TokenLogprob& other = token.likeliest[i];
      ids.insert(other.token);
      sum += std::exp(other.logprob);
      if (i > 0) {
        EXPECT_LT(other.logprob, token.likeliest[i - 1].logprob);
        EXPECT_FALSE(kTokenizer.is_special(other.token));
      }
    }
    EXPECT_EQ(ids.size(), 20U);
    EXPECT_LT(sum, 1 + 1e-6) << "they are floats";
  }
  EXPECT_GT(distinct.size(), 290U);
  admit(executor, asking(3, 6, {.logprobs = 0}));
  EXPECT_TRUE(finish(executor, sampling_step({3})).logprobs.front().tokens.front().likeliest.empty());
  admit(executor, request_with(4, 6));
  EXPECT_TRUE(finish(executor, sampling_step({4})).logprobs.empty());
}

TEST(TimedExecutor, ASlotIsUsedAgainByTheNext) {
  TimedExecutor executor = make(300, 0);
  TimedExecutor fresh = make(300, 0);
  admit(executor, request_with(1, 5));
  static_cast<void>(answer(executor, 1, 77));
  executor.on_release(slot_of(1));
  admit(executor, request_with(1, 6));
  admit(fresh, request_with(1, 6));
  EXPECT_EQ(answer(executor, 1, 1'000).text, answer(fresh, 1, 1'000).text);
}

TEST(TimedExecutor, SamplesOnlyWhereThePlanSaysSo) {
  TimedExecutor executor = make(20, 0);
  admit(executor, request_with(1, 5));
  admit(executor, request_with(2, 6));
  StepPlan plan = sampling_step({1, 2});
  plan.sequences.front().samples = false;
  const StepResult result = finish(executor, plan);
  ASSERT_EQ(result.sampled.size(), 1U);
  EXPECT_EQ(result.sampled.front().id, RequestId(2));
}

}  // namespace
}  // namespace kvist::engine::timed_executor_test
