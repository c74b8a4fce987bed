#include "kvist/openai/chunk_frame.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kvist/openai/codec.h"

namespace kvist::openai::chunk_frame_test {
namespace {

std::string vllm_chunk(std::string_view content) {
  return R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":")" +
         std::string(content) + R"("},"logprobs":null,"finish_reason":null}]})";
}

ChunkFrame learned(const std::string& json) {
  ChunkFrame frame;
  const Result<ChunkView> view = parse_chunk(json);
  EXPECT_TRUE(view) << json;
  if (view) frame.learn(json, *view);
  return frame;
}

TEST(ChunkFrame, KnowsChunksThatDifferInTheirContent) {
  const ChunkFrame frame = learned(vllm_chunk("Hi"));
  EXPECT_EQ(frame.content_of(vllm_chunk(" there,")), " there,");
  EXPECT_EQ(frame.content_of(vllm_chunk("Hi")), "Hi");
  const ChunkFrame spaced = learned(R"({"choices": [{"delta": {"role": "assistant", "content" : "a"}}]})");
  EXPECT_EQ(spaced.content_of(R"({"choices": [{"delta": {"role": "assistant", "content" : "b c"}}]})"), "b c");
}

TEST(ChunkFrame, LeavesToTheParserWhatIsNotPlain) {
  const ChunkFrame frame = learned(vllm_chunk("Hi"));
  for (const char* content : {"", "\\n", "\\u00e9", "h\xC3\xA9", "a\tb", "\x7F\xFF", R"(","role":"x)"})
    EXPECT_FALSE(frame.content_of(vllm_chunk(content))) << content;
  EXPECT_FALSE(frame.content_of("[DONE]"));
  EXPECT_FALSE(frame.content_of(vllm_chunk("a") + " "));
  std::string other_time = vllm_chunk("a");
  other_time.replace(other_time.find(R"("created":1)"), 11, R"("created":2)");
  EXPECT_FALSE(frame.content_of(other_time));
  EXPECT_FALSE(ChunkFrame().content_of(vllm_chunk("a")));
}

TEST(ChunkFrame, LearnsOnlyWhereTheContentIsTheOneFieldOfThisName) {
  for (const std::string& json : {
           std::string(R"({"content":"a","choices":[{"delta":{"content":"a"}}]})"),
           std::string(R"({"content":"a","choices":[{"delta":{"c\u006fntent":"a"}}]})"),
           std::string(R"({"content":"a","choices":[{"text":"a"}]})"),
           std::string(R"({"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]})"),
           std::string(R"({"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}})"),
           std::string(R"({"choices":[{"delta":{"content":"a"}}],"error":"broken"})"),
           std::string(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})"),
           std::string(R"({"choices":[{"delta":{"content":"\u0061"}}]})"),
           vllm_chunk("a") + std::string(4'096, ' '),
       })
    EXPECT_FALSE(learned(json).content_of(json)) << json;
}

// Chunks with a few bytes changed, put in, left out or repeated.
TEST(ChunkFrame, SaysWhatTheParserSays) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::vector<std::string> originals = {
      vllm_chunk("Hi"), R"({"choices": [{"delta": {"content": "a"}}, {"delta": {}}]})",
      R"({"choices":[{"text":"a","message":{"content":"a"}}],"content":[]})",
      R"({"choices":[{"delta":{"content":"a","reasoning":"b"}}],"system_fingerprint":"content"})"};
  constexpr std::string_view kBytes = "\"\\:,{}[] aen\x80tu";
  const auto mutated = [&](std::string json) {
    for (std::size_t edits = below(4); edits > 0; --edits) {
      const std::size_t at = below(json.size());
      switch (below(4)) {
        case 0:
          json[at] = kBytes[below(kBytes.size())];
          break;
        case 1:
          json.insert(at, 1, kBytes[below(kBytes.size())]);
          break;
        case 2:
          json.erase(at, 1);
          break;
        default:
          json.insert(at, json.substr(below(json.size()), below(12)));
      }
      if (json.empty()) return std::string("{}");
    }
    return json;
  };
  std::size_t known = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::string first = mutated(originals[below(originals.size())]);
    Result<ChunkView> view = parse_chunk(first);
    if (!view) continue;
    ChunkFrame frame;
    frame.learn(first, *view);
    const std::string second = mutated(first);
    const auto content = frame.content_of(second);
    if (!content) continue;
    ++known;
    const Result<ChunkView> parsed = parse_chunk(second);
    ASSERT_TRUE(parsed) << first << "\n" << second;
    EXPECT_EQ(parsed->content, *content) << first << "\n" << second;
    EXPECT_EQ(parsed->generates, view->generates) << first << "\n" << second;
    EXPECT_FALSE(parsed->finish_reason || parsed->usage || parsed->error) << first << "\n" << second;
  }
  EXPECT_GT(known, 300U);
}

}  // namespace
}  // namespace kvist::openai::chunk_frame_test
