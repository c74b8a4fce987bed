#include <gtest/gtest.h>

#include <limits>

#include "kvist/openai/chunk_writer.h"
#include "kvist/openai/codec.h"

namespace kvist::openai::logprobs_test {
namespace {

const std::vector<TokenLogprobs> kTokens{
    {.chosen = {"h\xC3\xA9", -0.5}, .likeliest = {{"h\xC3\xA9", -0.5}, {"\xE2\x82", -2}}},
    {.chosen = {"!", -std::numeric_limits<double>::infinity()}}};

TEST(Logprobs, OfAChatNameBytesBecauseTextCannotHoldEveryToken) {
  std::string out;
  ChunkWriter({.id = "c", .model = "m", .chat = true}).append_text(out, 0, "x", kTokens, 0);
  EXPECT_TRUE(out.ends_with(
      R"("delta":{"content":"x"},"logprobs":{"content":[{"token":"hé","logprob":-0.5,"bytes":[104,195,169],)"
      R"("top_logprobs":[{"token":"hé","logprob":-0.5,"bytes":[104,195,169]},)"
      "{\"token\":\"\uFFFD\uFFFD\",\"logprob\":-2,\"bytes\":[226,130]}]},"
      R"({"token":"!","logprob":-9999,"bytes":[33],"top_logprobs":[]}],"refusal":null},"finish_reason":null}]})"))
      << out;
}

TEST(Logprobs, OfACompletionCountCharacters) {
  const std::string answer =
      whole_answer({.id = "c", .model = "m", .chat = false},
                   {{.text = "h\xC3\xA9!", .finish_reason = "stop", .logprobs = LogprobsText(false, kTokens)}}, {});
  EXPECT_NE(answer.find(R"("logprobs":{"text_offset":[0,2],"token_logprobs":[-0.5,-9999],"tokens":["hé","!"],)"),
            std::string::npos)
      << answer;
}

TEST(Logprobs, AreTheSameHoweverTheTokensCome) {
  for (const bool chat : {false, true}) {
    std::string at_once;
    LogprobsText(chat, kTokens, 7).append_to(at_once);
    LogprobsText one_by_one(chat, {}, 7);
    for (const TokenLogprobs& token : kTokens) one_by_one.add({&token, 1});
    std::string text;
    one_by_one.append_to(text);
    EXPECT_EQ(text, at_once);
  }
}

TEST(Logprobs, NotRequestedAreNull) {
  std::string out;
  ChunkWriter({.id = "c", .model = "m", .chat = true}).append_text(out, 0, "x", {}, 0);
  EXPECT_EQ(out, text_chunk({.id = "c", .model = "m", .chat = true}, 0, "x"));
}

TEST(Logprobs, OfAnEchoBeginWithAnUnknownOne) {
  const std::vector<TokenLogprobs> tokens = {{.chosen = {"a", 0}, .is_first = true}, {.chosen = {"b", -1}}};
  const std::string answer =
      whole_answer({.id = "c", .model = "m", .chat = false},
                   {{.text = "ab", .finish_reason = "length", .logprobs = LogprobsText(false, tokens)}}, {});
  EXPECT_NE(answer.find(R"("logprobs":{"text_offset":[0,1],"token_logprobs":[null,-1],"tokens":["a","b"],)"
                        R"("top_logprobs":[null,{"b":-1}]})"),
            std::string::npos)
      << answer;
}

// A reader of JSON takes the last of several members of one name, and would take the likeliest token for a less likely
// one.
TEST(Logprobs, OfTokensThatJsonWritesAlikeTheFirstIsWritten) {
  const std::vector<TokenLogprobs> tokens = {
      {.chosen = {"\xE2", -0.5}, .likeliest = {{"\xE2", -0.5}, {"\xE3", -2}, {"x", -3}, {"x", -4}}}};
  const std::string answer =
      whole_answer({.id = "c", .model = "m", .chat = false},
                   {{.text = "", .finish_reason = "length", .logprobs = LogprobsText(false, tokens)}}, {});
  EXPECT_NE(answer.find("\"top_logprobs\":[{\"\xEF\xBF\xBD\":-0.5,\"x\":-3}]"), std::string::npos) << answer;
}

TEST(PromptLogprobs, AreByTokenIdWithTheTokenItselfOnce) {
  WholeChoice choice{.text = "x", .finish_reason = "stop"};
  choice.prompt_logprobs =
      std::vector<std::vector<RankedLogprob>>({{},
                                               {{.id = TokenId(7), .token = {"b", -2}, .rank = 2},
                                                {.id = TokenId(3), .token = {"\"", -0.25}, .rank = 1},
                                                {.id = TokenId(7), .token = {"b", -2}, .rank = 2}}});
  const std::string json = R"("prompt_logprobs":[null,{"7":{"logprob":-2,"rank":2,"decoded_token":"b"},)"
                           R"("3":{"logprob":-0.25,"rank":1,"decoded_token":"\""}}])";
  const std::string text = whole_answer({.id = "c", .model = "m", .chat = false}, {choice}, {});
  EXPECT_NE(text.find(R"("finish_reason":"stop",)" + json + "}]"), std::string::npos) << text;
  const std::string chat = whole_answer({.id = "c", .model = "m", .chat = true}, {choice}, {});
  EXPECT_TRUE(chat.ends_with("," + json + "}")) << "beside the choices, as in vLLM: " << chat;
}

}  // namespace
}  // namespace kvist::openai::logprobs_test
