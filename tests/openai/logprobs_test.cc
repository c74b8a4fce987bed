#include <gtest/gtest.h>

#include <limits>

#include "kvist/openai/chunk_writer.h"
#include "kvist/openai/codec.h"

namespace kvist::openai {
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
  const std::string answer = whole_answer({.id = "c", .model = "m", .chat = false},
                                          {{.text = "h\xC3\xA9!", .finish_reason = "stop", .logprobs = kTokens}}, {});
  EXPECT_NE(answer.find(R"("logprobs":{"text_offset":[0,2],"token_logprobs":[-0.5,-9999],"tokens":["hé","!"],)"),
            std::string::npos)
      << answer;
}

TEST(Logprobs, NotRequestedAreNull) {
  std::string out;
  ChunkWriter({.id = "c", .model = "m", .chat = true}).append_text(out, 0, "x", {}, 0);
  EXPECT_EQ(out, text_chunk({.id = "c", .model = "m", .chat = true}, 0, "x"));
}

}  // namespace
}  // namespace kvist::openai
