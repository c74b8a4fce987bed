// How many log probabilities the answers to one request may have.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/worker/request_options.h"

namespace kvist::worker::answer_logprobs_test {
namespace {

constexpr std::uint32_t kContext = 131'072;

std::vector<std::vector<TokenId>> prompts(std::size_t number) {
  return {number, std::vector<TokenId>(1'000)};
}

openai::GenerationOptions asked(std::uint32_t choices, std::optional<std::uint32_t> max_tokens,
                                std::optional<std::uint32_t> likeliest) {
  openai::GenerationOptions options;
  options.choices = choices;
  options.best_of = choices;
  options.max_tokens = max_tokens;
  options.sampling.logprobs = likeliest;
  return options;
}

TEST(AnswerLogprobs, AreBoundedOverAllAnswersToARequest) {
  const auto fits = [](openai::GenerationOptions options, std::size_t of = 1) {
    return bound_answer_logprobs(options, prompts(of), kContext).has_value();
  };
  EXPECT_TRUE(fits(asked(4, 6'241, 20)));
  EXPECT_FALSE(fits(asked(4, 6'242, 20)));
  EXPECT_TRUE(fits(asked(1, 100'000, 0)));
  EXPECT_TRUE(fits(asked(1, 4'096, 20), 6));
  EXPECT_FALSE(fits(asked(1, 4'096, 20), 7));
  EXPECT_TRUE(fits(asked(128, 100'000, {})));
}

TEST(AnswerLogprobs, OfAStreamAreNotKept) {
  openai::GenerationOptions options = asked(4, 100'000, 20);
  options.stream = true;
  EXPECT_TRUE(bound_answer_logprobs(options, prompts(1), kContext));
  EXPECT_EQ(options.max_tokens, 100'000U);
}

TEST(AnswerLogprobs, CountOnlyWhatTheContextHasRoomFor) {
  openai::GenerationOptions options = asked(1, 4'000'000, 3);
  EXPECT_TRUE(bound_answer_logprobs(options, prompts(1), kContext));
  EXPECT_EQ(options.max_tokens, 4'000'000U);
}

TEST(AnswerLogprobs, WithoutALimitOfTheClientsEndWithTheirRoom) {
  openai::GenerationOptions options = asked(4, {}, 20);
  EXPECT_TRUE(bound_answer_logprobs(options, prompts(1), kContext));
  EXPECT_EQ(options.max_tokens, 6'241U);
  openai::GenerationOptions few = asked(1, {}, 0);
  EXPECT_TRUE(bound_answer_logprobs(few, prompts(1), kContext));
  EXPECT_EQ(few.max_tokens, std::nullopt);
}

}  // namespace
}  // namespace kvist::worker::answer_logprobs_test
