// Request fields that control how the prompt becomes tokens.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "kvist/openai/codec.h"
#include "kvist/openai/tokenize.h"

namespace kvist::openai::prompt_request_test {
namespace {

using Side = text::Truncation::Side;

Result<ChatRequest> chat(std::string_view fields, ReadFor purpose = ReadFor::kRouting) {
  return parse_chat_request(fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"x"}}],{}}})", fields),
                            purpose);
}

Result<CompletionRequest> completion(std::string_view fields, ReadFor purpose = ReadFor::kRouting) {
  return parse_completion_request(fmt::format(R"({{"model":"m","prompt":"x",{}}})", fields), purpose);
}

std::optional<text::Truncation> cut(const auto& request, std::uint32_t context) {
  EXPECT_TRUE(request) << request.error().message;
  return truncation_of(request->options.prompt, context);
}

TEST(PromptRequest, ReadsWhetherSpecialTokensAreAdded) {
  EXPECT_EQ(chat(R"("n":1)")->options.prompt.add_special_tokens, std::nullopt);
  EXPECT_EQ(chat(R"("add_special_tokens":true)")->options.prompt.add_special_tokens, true);
  EXPECT_EQ(completion(R"("add_special_tokens":false)")->options.prompt.add_special_tokens, false);
  EXPECT_EQ(completion(R"("add_special_tokens":7)")->options.prompt.add_special_tokens, std::nullopt)
      << "the worker refuses it";
  EXPECT_FALSE(completion(R"("add_special_tokens":7)", ReadFor::kAnswer));
}

TEST(PromptRequest, ReadsTruncation) {
  EXPECT_EQ(cut(chat(R"("n":1)"), 100), std::nullopt);
  EXPECT_EQ(cut(chat(R"("truncate_prompt_tokens":7)"), 100), (text::Truncation{.tokens = 7}));
  EXPECT_EQ(cut(completion(R"("truncate_prompt_tokens":7,"truncation_side":"right")"), 0),
            (text::Truncation{.tokens = 7, .side = Side::kKeepFirst}));
  EXPECT_EQ(cut(completion(R"("truncate_prompt_tokens":0,"truncation_side":"left")"), 0),
            (text::Truncation{.tokens = 0, .side = Side::kKeepLast}));
  EXPECT_EQ(cut(chat(R"("truncate_prompt_tokens":-2)"), 100), std::nullopt) << "the worker refuses it";
  EXPECT_FALSE(chat(R"("truncate_prompt_tokens":-2)", ReadFor::kAnswer));
  EXPECT_FALSE(chat(R"("truncation_side":"up")", ReadFor::kAnswer));
  EXPECT_TRUE(chat(R"("truncate_prompt_tokens":2)", ReadFor::kAnswer));
}

// vLLM 0.32: TokenizeParams.max_truncation_tokens.
TEST(PromptRequest, KeepsAsManyAsTheContextHolds) {
  EXPECT_EQ(cut(completion(R"("truncate_prompt_tokens":-1)"), 100)->tokens, 99U) << "16 tokens are the default";
  EXPECT_EQ(cut(completion(R"("truncate_prompt_tokens":-1,"max_tokens":0)"), 100)->tokens, 100U);
  EXPECT_EQ(cut(chat(R"("truncate_prompt_tokens":-1)"), 100)->tokens, 100U);
  EXPECT_EQ(cut(chat(R"("truncate_prompt_tokens":-1,"max_tokens":5)"), 100)->tokens, 99U);
  EXPECT_EQ(cut(chat(R"("truncate_prompt_tokens":-1,"max_completion_tokens":5)"), 100)->tokens, 99U);
  EXPECT_EQ(cut(chat(R"("truncate_prompt_tokens":-1)"), 0), std::nullopt) << "nobody told how many";
}

TEST(PromptRequest, ReadsWhetherTheCacheIsSkipped) {
  const auto of_chat = [](std::string_view fields) { return chat(fields)->options.computes_whole_prompt; };
  const auto of_text = [](std::string_view fields) { return completion(fields)->options.computes_whole_prompt; };
  EXPECT_FALSE(of_chat(R"("logprobs":true)"));
  EXPECT_TRUE(of_chat(R"("prompt_logprobs":0)"));
  EXPECT_FALSE(of_chat(R"("prompt_logprobs":null)"));
  EXPECT_TRUE(of_chat(R"("echo":true)")) << "top_logprobs is 0 where it is not said";
  EXPECT_TRUE(of_text(R"("prompt_logprobs":3)"));
  EXPECT_FALSE(of_text(R"("echo":true)"));
  EXPECT_TRUE(of_text(R"("echo":true,"logprobs":0)"));
  EXPECT_FALSE(of_text(R"("echo":false,"logprobs":2)"));
}

TEST(PromptRequest, TellsTheTemplateMore) {
  const auto request = chat(R"("documents":[{"title":"t","text":"x"}],"reasoning_effort":"low")", ReadFor::kAnswer);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->documents, R"([{"title":"t","text":"x"}])");
  EXPECT_EQ(request->reasoning_effort, "low");
  EXPECT_EQ(chat(R"("documents":[])", ReadFor::kAnswer)->documents, "");
  EXPECT_FALSE(chat(R"("documents":["t"])", ReadFor::kAnswer));
  EXPECT_TRUE(chat(R"("documents":["t"],"reasoning_effort":7)"));
}

TEST(PromptRequest, ReadsReasoningAndParts) {
  const auto request = parse_chat_request(
      R"({"model":"m","messages":[{"role":"user","content":["a",{"type":"input_text","text":"b"},{"type":"image"},
           {"type":"refusal","refusal":"c"}],"reasoning":"not the assistant's"},
          {"role":"assistant","content":"d","reasoning_content":"old","reasoning":"new"},
          {"role":"assistant","content":"e","reasoning_content":"old"}]})",
      ReadFor::kRouting);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->messages[0].content, "a\nb\nc");
  EXPECT_EQ(request->messages[0].reasoning, "");
  EXPECT_EQ(request->messages[1].reasoning, "new");
  EXPECT_EQ(request->messages[2].reasoning, "old");
}

TEST(TokenizeRequest, TakesWhatVllmTakes) {
  const auto read = parse_tokenize_request(R"({"prompt":"a","add_special_tokens":false,"return_token_strs":true})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->add_special_tokens, false);
  EXPECT_TRUE(read->return_token_strs);
  const auto chat = parse_tokenize_request(
      R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false,"continue_final_message":true})");
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(chat->add_special_tokens, std::nullopt);
  EXPECT_TRUE(std::get<ChatPrompt>(chat->input).continue_final_message);
}

TEST(TokenizeAnswer, TellsTheContext) {
  const auto read = parse_tokenize_answer(R"({"count":1,"max_model_len":4096,"tokens":[5],"token_strs":null})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tokens, std::vector<TokenId>{TokenId(5)});
  EXPECT_EQ(read->max_model_len, 4096U);
  EXPECT_EQ(parse_tokenize_answer(R"({"tokens":[]})")->max_model_len, 0U);
  EXPECT_FALSE(parse_tokenize_answer(R"({"tokens":[-1]})"));
}

}  // namespace
}  // namespace kvist::openai::prompt_request_test
