#include "kvist/gateway/prompt_reader.h"

#include <gtest/gtest.h>

#include "kvist/kv/block_hash.h"

namespace kvist::gateway::prompt_reader_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;

class PromptReaderTest : public ::testing::Test {
 protected:
  static std::vector<kv::BlockHash> keys_of(std::string_view text, std::string_view salt = "",
                                            std::string_view adapter = "") {
    std::vector<TokenId> tokens;
    tokenizer::ByteTokenizer().encode(text, tokens);
    return kv::hash_blocks(kv::root_hash({.model = "m", .lora = adapter, .cache_salt = salt}), tokens, kBlockSize);
  }
  ReadRequest completion(std::string_view body) const {
    auto read = reader_.read(Api::kCompletions, body);
    EXPECT_TRUE(read) << read.error().message;
    return std::move(*read);
  }

  PromptReader reader_{"m", kBlockSize};
};

TEST_F(PromptReaderTest, ReadsAChatAsTheWorkersDo) {
  const auto read =
      reader_.read(Api::kChat, R"({"model":"m","messages":[{"role":"user","content":"Hello"}],"stream":true})");
  ASSERT_TRUE(read);
  const tokenizer::ByteTokenizer tokenizer;
  const auto tokens = text::SimpleChatTemplate().render({{.role = "user", .content = "Hello"}}, tokenizer);
  EXPECT_EQ(read->profile.prompt_tokens, tokens.size());
  EXPECT_EQ(*read->profile.blocks,
            kv::hash_blocks(kv::root_hash({.model = "m", .lora = "", .cache_salt = ""}), tokens, kBlockSize));
  EXPECT_TRUE(read->options.stream);
}

TEST_F(PromptReaderTest, RoutesWhatOnlyTheWorkerUnderstands) {
  // A vLLM worker honours tools, stop strings and several choices, so the gateway must not refuse them.
  EXPECT_TRUE(reader_.read(Api::kChat, R"({"model":"m","n":3,"stop":"x","tools":[{"type":"function"}],
                                           "messages":[{"role":"user","content":"Hello"}]})"));
}

TEST_F(PromptReaderTest, ReadsTextAndTokenPrompts) {
  const ReadRequest text = completion(R"({"model":"m","prompt":"abcdefghij"})");
  EXPECT_EQ(text.profile.prompt_tokens, 10U);
  EXPECT_EQ(*text.profile.blocks, keys_of("abcdefghij"));
  EXPECT_EQ(text.profile.blocks->size(), 2U);
  const ReadRequest tokens = completion(R"({"model":"m","prompt":[97,98,99,100,101]})");
  EXPECT_EQ(*tokens.profile.blocks, keys_of("abcde"));
  EXPECT_EQ(tokens.profile.prompt_tokens, 5U);
}

TEST_F(PromptReaderTest, TheFirstOfSeveralPromptsDecides) {
  const ReadRequest read = completion(R"({"model":"m","prompt":["abcdefgh","x"]})");
  EXPECT_EQ(read.prompts, 2U);
  EXPECT_EQ(*read.profile.blocks, keys_of("abcdefgh"));
}

TEST_F(PromptReaderTest, TheSaltIsPartOfTheNames) {
  const ReadRequest read = completion(R"({"model":"m","prompt":"abcdefgh","cache_salt":"s"})");
  EXPECT_EQ(*read.profile.blocks, keys_of("abcdefgh", "s"));
  EXPECT_NE(*read.profile.blocks, keys_of("abcdefgh"));
}

TEST_F(PromptReaderTest, AnAdapterIsPartOfTheNames) {
  FleetReadings fleet;
  fleet.adapters = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"alpha", "beta"});
  const auto read = [&](std::string_view body) { return reader_.read(Api::kCompletions, body, fleet); };
  const auto alpha = read(R"({"model":"alpha","prompt":"abcdefgh"})");
  ASSERT_TRUE(alpha);
  EXPECT_EQ(alpha->profile.adapter, "alpha");
  EXPECT_EQ(*alpha->profile.blocks, keys_of("abcdefgh", "", "alpha"));
  EXPECT_NE(*alpha->profile.blocks, keys_of("abcdefgh"));
  const auto salted = read(R"({"model":"beta","prompt":"abcdefgh","cache_salt":"s"})");
  ASSERT_TRUE(salted);
  EXPECT_EQ(*salted->profile.blocks, keys_of("abcdefgh", "s", "beta"));
  const auto own = read(R"({"model":"m","prompt":"abcdefgh"})");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->profile.adapter, "");
  EXPECT_EQ(*own->profile.blocks, keys_of("abcdefgh"));
  EXPECT_EQ(read(R"({"model":"gamma","prompt":"abcdefgh"})").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(reader_.read(Api::kCompletions, R"({"model":"alpha","prompt":"abcdefgh"})")) << "no worker has any";
}

TEST_F(PromptReaderTest, AnotherModelDoesNotExist) {
  const auto read = reader_.read(Api::kCompletions, R"({"model":"gpt","prompt":"x"})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(read.error().message.contains("gpt"));
}

TEST_F(PromptReaderTest, RefusesNonRequests) {
  for (const Api api : {Api::kChat, Api::kCompletions}) {
    const auto read = reader_.read(api, R"({"model":"m")");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace kvist::gateway::prompt_reader_test
