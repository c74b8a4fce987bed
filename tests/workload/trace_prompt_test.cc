#include "kvist/workload/trace_prompt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kvist/text/chat.h"

namespace kvist::workload::trace_prompt_test {
namespace {

std::vector<TokenId> prompt_of(const TracePrompts& prompts, const TraceRequest& request, std::uint64_t index = 0) {
  return text::SimpleChatTemplate().render({{"user", prompts.message_of(request, index)}}, tokenizer::ByteTokenizer());
}

std::size_t common_prefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(TracePrompts, APromptHasTheRecordedLength) {
  const TracePrompts prompts(1, 512);
  for (const std::uint32_t tokens : {20U, 21U, 500U, 511U, 512U, 513U, 530U, 531U, 1'024U, 7'001U}) {
    EXPECT_EQ(prompt_of(prompts, {{}, tokens, 1, {3, 1, 4, 1, 5}}).size(), tokens);
    EXPECT_EQ(prompt_of(prompts, {{}, tokens, 1, {}}).size(), tokens);
  }
  EXPECT_EQ(prompt_of(prompts, {{}, 1, 1, {9}}).size(), 20U) << "the template and one byte is the least";
}

TEST(TracePrompts, PromptsShareWhatTheirIdsShare) {
  for (const std::uint32_t tokens_per_hash : {16U, 64U, 512U}) {
    const TracePrompts prompts(1, tokens_per_hash);
    const std::uint32_t length = 4 * tokens_per_hash + 20;
    const auto base = prompt_of(prompts, {{}, length, 1, {1, 2, 3, 4, 5}}, 0);
    EXPECT_EQ(base, prompt_of(prompts, {{}, length, 1, {1, 2, 3, 4, 5}}, 1));
    for (std::size_t equal = 0; equal < 4; ++equal) {
      std::vector<std::uint64_t> ids = {1, 2, 3, 4, 5};
      for (std::size_t i = equal; i < ids.size(); ++i) ids[i] += 100;
      const std::size_t shared = common_prefix(base, prompt_of(prompts, {{}, length, 1, ids}, 2));
      // Prose may agree by chance up to the name of the block, which comes within its first 22 bytes.
      EXPECT_GE(shared, equal * tokens_per_hash);
      EXPECT_LT(shared, equal * tokens_per_hash + 22);
    }
  }
}

TEST(TracePrompts, WhatGoesOnBeginsWithPromptAndAnswer) {
  const TracePrompts prompts(1, 32);
  const tokenizer::ByteTokenizer tokenizer;
  const text::SimpleChatTemplate chat_template;
  std::vector<text::ChatMessage> messages = {{"user", prompts.message_of({{}, 200, 30, {1, 2, 3, 4, 5, 6}}, 0)}};
  std::vector<TokenId> before = chat_template.render(messages, tokenizer);
  const std::string answer = "an answer of its own making";
  for (const std::uint32_t length : {300U, 500U, 501U}) {
    // One turn after the other.
    tokenizer.encode(answer, before);
    const TraceRequest request{{}, length, 1, {1, 2, 3, 4, 5, 6, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160}};
    const auto next = prompts.continued(messages, answer, request, length);
    if (length == 501) {
      EXPECT_FALSE(next.has_value()) << "no room for an answer and a message behind 500 tokens";
      continue;
    }
    ASSERT_TRUE(next.has_value());
    const std::vector<TokenId> prompt = chat_template.render(*next, tokenizer);
    EXPECT_EQ(prompt.size(), length);
    EXPECT_EQ(common_prefix(before, prompt), before.size());
    // Another one with the same ids says the same behind the answer.
    EXPECT_EQ(prompts.continued(messages, answer, request, 99)->back().content.substr(0, 40),
              next->back().content.substr(0, 40));
    messages = *next;
    before = prompt;
  }
}

TEST(TracePrompts, NoTwoIdsHaveOneText) {
  const TracePrompts prompts(1, 64);
  std::set<std::string> texts;
  for (std::uint64_t id = 0; id < 20'000; ++id) {
    // In second place, so that no template covers a part of it.
    texts.insert(prompts.message_of({{}, 128 + 12, 1, {0, id << (id % 40)}}, 0));
  }
  EXPECT_GT(texts.size(), 19'000U);  // some shifted ids are equal
  std::set<std::uint64_t> ids;
  for (std::uint64_t id = 0; id < 20'000; ++id) ids.insert(id << (id % 40));
  EXPECT_EQ(texts.size(), ids.size());
}

TEST(TracePrompts, TokensBehindTheLastIdAreUnique) {
  const TracePrompts prompts(1, 64);
  const auto one = prompt_of(prompts, {{}, 300, 1, {1, 2}}, 0);
  const auto other = prompt_of(prompts, {{}, 300, 1, {1, 2}}, 1);
  EXPECT_GE(common_prefix(one, other), 128U);
  EXPECT_LT(common_prefix(one, other), 128U + 22);
}

TEST(TracePrompts, AnotherSeedSharesNothing) {
  const auto one = prompt_of(TracePrompts(1, 512), {{}, 2'000, 1, {1, 2, 3, 4}});
  const auto other = prompt_of(TracePrompts(2, 512), {{}, 2'000, 1, {1, 2, 3, 4}});
  EXPECT_LT(common_prefix(one, other), 22U);
}

TEST(TracePrompts, TheTextIsPlainAscii) {
  const std::string text = TracePrompts(1, 512).message_of({{}, 5'000, 1, {1, 2, 3}}, 0);
  EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

}  // namespace
}  // namespace kvist::workload::trace_prompt_test
