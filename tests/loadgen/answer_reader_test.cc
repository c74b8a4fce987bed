#include "kvist/loadgen/answer_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/openai/codec.h"

namespace kvist::loadgen::answer_reader_test {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint at(int ms) {
  return TimePoint{milliseconds(ms)};
}

const openai::AnswerHead kHead{.id = "chatcmpl-1", .model = "m", .created = 1, .chat = true};

std::string event(const std::string& json) {
  return "data: " + json + "\n\n";
}

class AnswerReaderTest : public ::testing::Test {
 protected:
  workload::TurnClock clock_{ConversationId(0), 0, TimePoint{}};
  AnswerReader reader_{clock_};
};

TEST_F(AnswerReaderTest, TheRoleChunkIsNotTheFirstToken) {
  ASSERT_TRUE(reader_.feed(event(openai::role_chunk(kHead, 0)), at(10)).has_value());
  EXPECT_FALSE(clock_.has_first_token());
  ASSERT_TRUE(reader_.feed(event(openai::text_chunk(kHead, 0, "Hi")), at(90)).has_value());
  EXPECT_EQ(clock_.sample().first_token, at(90));
  EXPECT_EQ(clock_.sample().chunks, 1U);
}

TEST_F(AnswerReaderTest, ATokenArrivesWithTheReadThatCompletesItsEvent) {
  const std::string bytes = event(openai::text_chunk(kHead, 0, "Hi"));
  ASSERT_TRUE(reader_.feed(bytes.substr(0, 20), at(10)).has_value());
  ASSERT_TRUE(reader_.feed(bytes.substr(20), at(25)).has_value());
  EXPECT_EQ(clock_.sample().first_token, at(25));
}

TEST_F(AnswerReaderTest, AWholeAnswerGivesReplyUsageAndGaps) {
  const std::string tail =
      event(openai::finish_chunk(kHead, 0, "stop")) +
      event(openai::usage_chunk(kHead, {.prompt_tokens = 9, .completion_tokens = 4, .cached_tokens = 2}));
  ASSERT_TRUE(reader_.feed(event(openai::text_chunk(kHead, 0, "a")), at(10)).has_value());
  ASSERT_TRUE(
      reader_
          .feed(": comment\n\n" + event(openai::text_chunk(kHead, 0, "b")) + event(openai::text_chunk(kHead, 0, "c")),
                at(30))
          .has_value());
  ASSERT_TRUE(reader_.feed(tail, at(31)).has_value());
  EXPECT_FALSE(reader_.check_whole().has_value());
  ASSERT_TRUE(reader_.feed("data: [DONE]\n\nwhatever comes after it", at(33)).has_value());
  EXPECT_TRUE(reader_.check_whole().has_value());
  EXPECT_EQ(reader_.done_at(), at(33));
  EXPECT_EQ(reader_.take_reply(), "abc");
  EXPECT_EQ(clock_.sample().gaps_ms, (std::vector<float>{20, 0}));
  EXPECT_EQ(clock_.sample().completion_tokens, 4U);
  EXPECT_EQ(clock_.sample().cached_tokens, 2U);
}

TEST_F(AnswerReaderTest, ReasoningCountsForTheClockAndNotForTheReply) {
  const auto delta = [](const char* name, const char* text) {
    return event(std::string(R"({"choices":[{"index":0,"delta":{")") + name + R"(":")" + text + R"("}}]})");
  };
  ASSERT_TRUE(reader_.feed(delta("reasoning_content", "Let"), at(10)).has_value());
  ASSERT_TRUE(reader_.feed(delta("reasoning", " me"), at(20)).has_value());
  ASSERT_TRUE(reader_.feed(delta("content", "Yes"), at(30)).has_value());
  ASSERT_TRUE(reader_.feed(delta("content", "."), at(40)).has_value());
  ASSERT_TRUE(reader_.feed(event(openai::usage_chunk(kHead, {.prompt_tokens = 9, .completion_tokens = 4})), at(41))
                  .has_value());
  EXPECT_EQ(clock_.sample().first_token, at(10));
  EXPECT_EQ(clock_.sample().chunks, 4U);
  EXPECT_EQ(clock_.sample().tpot_ms(), 10.0) << "usage has the tokens of the reasoning, so their time counts too";
  EXPECT_EQ(reader_.chunks_beside_reply(), 2U);
  EXPECT_EQ(reader_.take_reply(), "Yes.");
}

TEST_F(AnswerReaderTest, AnAnswerOfReasoningAloneIsOne) {
  ASSERT_TRUE(reader_.feed(event(R"({"choices":[{"index":0,"delta":{"reasoning_content":"Let"}}]})"), at(10)));
  ASSERT_TRUE(reader_.feed("data: [DONE]\n\n", at(20)).has_value());
  EXPECT_TRUE(reader_.check_whole().has_value());
  EXPECT_EQ(reader_.take_reply(), "");
}

TEST_F(AnswerReaderTest, WithoutDoneOrContentItIsNoWholeAnswer) {
  EXPECT_EQ(reader_.check_whole().error().message, "the stream ended without [DONE]");
  ASSERT_TRUE(reader_.feed("data: [DONE]\n\n", at(1)).has_value());
  EXPECT_EQ(reader_.check_whole().error().message, "the answer had no content");
}

TEST_F(AnswerReaderTest, ErrorFramesAndNonsenseAreErrors) {
  EXPECT_EQ(reader_.feed(event(R"({"error":{"message":"out of memory"}})"), at(1)).error().message,
            "error frame: out of memory");
  AnswerReader other(clock_);
  EXPECT_EQ(other.feed("data: nonsense\n\n", at(1)).error().code, ErrorCode::kCorrupt);
}

TEST_F(AnswerReaderTest, AReplyWithoutEndIsCutOff) {
  const std::string chunk = event(openai::text_chunk(kHead, 0, std::string(500'000, 'x')));
  int fed = 0;
  Result<void> result;
  while (result && fed < 20) {
    result = reader_.feed(chunk, at(fed));
    ++fed;
  }
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(fed, 9);  // 8 x 500,000 bytes fit into 4 MiB
}

}  // namespace
}  // namespace kvist::loadgen::answer_reader_test
