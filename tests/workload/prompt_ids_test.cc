#include "kvist/workload/prompt_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kvist/workload/trace_prompt.h"

namespace kvist::workload::prompt_ids_test {
namespace {

using ::testing::HasSubstr;

constexpr TokenIdRange kRange{.first = 1'000, .last = 30'000};

TEST(PromptIds, AreOfTheRangeAndAsManyAsTheMessagesHaveBytes) {
  const PromptIds ids(kRange, PromptFrame::kNone);
  const std::vector<TokenId> prompt = ids.of({{"user", std::string(4'000, 'a')}, {"assistant", "bc"}});
  ASSERT_EQ(prompt.size(), 4'002U);
  for (const TokenId id : prompt) {
    EXPECT_GE(id.value(), kRange.first);
    EXPECT_LE(id.value(), kRange.last);
  }
  EXPECT_GT(std::set<TokenId>(prompt.begin(), prompt.end()).size(), 3'000U);  // not one id for one letter
  EXPECT_TRUE(ids.of({}).empty());
}

TEST(PromptIds, ACommonBeginningHasCommonIdsAndTheRestDiffers) {
  const PromptIds ids(kRange, PromptFrame::kNone);
  const auto one = ids.of({{"user", "shared text, one"}});
  const auto other = ids.of({{"user", "shared "}, {"assistant", "text, other"}});
  const auto [end, _] = std::ranges::mismatch(one, other);
  EXPECT_EQ(end - one.begin(), 14);  // "shared text, o"
}

TEST(PromptIds, OfATraceHaveItsLengthAndItsBlocks) {
  const PromptIds ids(kRange, PromptFrame::kChatTemplate);
  const TracePrompts prompts(3, 32);
  const auto prompt = [&](std::uint32_t tokens, std::vector<std::uint64_t> hash_ids, std::uint64_t index) {
    TraceRequest request;
    request.input_tokens = tokens;
    request.hash_ids = std::move(hash_ids);
    return ids.of({{"user", prompts.message_of(request, index)}});
  };
  const auto one = prompt(130, {1, 2, 3, 4}, 0);
  const auto other = prompt(100, {1, 2, 9}, 1);
  EXPECT_EQ(one.size(), 130U);
  EXPECT_EQ(other.size(), 100U);
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 64, other.begin()));
  EXPECT_FALSE(std::equal(one.begin() + 64, one.begin() + 88, other.begin() + 64));
}

TEST(PromptIds, ARangeIsRead) {
  EXPECT_EQ(parse_token_ids("5-9")->last, 9U);
  for (const char* wrong : {"", "5", "9-5", "5-5", "-5-9", "a-b", "1-4294967296", "1-2-3"}) {
    EXPECT_THAT(parse_token_ids(wrong).error().message, HasSubstr("like 1000-30000")) << wrong;
  }
}

TEST(PromptIds, MayBeTheTokensOfATokenizer) {
  const PromptIds ids([](std::string_view text) {
    return std::vector<TokenId>(static_cast<std::size_t>(std::ranges::count(text, ' ')) + 1, TokenId(7));
  });
  EXPECT_TRUE(ids.encodes_text());
  // The messages are one text, in which a word of one does not go on in the next.
  EXPECT_EQ(ids.of({{"user", "one two"}, {"assistant", "three"}, {"user", "four"}}).size(), 4U);
}

}  // namespace
}  // namespace kvist::workload::prompt_ids_test
