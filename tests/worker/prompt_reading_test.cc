// Request fields and worker settings that control the prompt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvist/openai/codec.h"
#include "kvist/openai/tokenize.h"
#include "running_worker.h"
#include "text/model_directory.h"

namespace kvist::worker::prompt_reading_test {
namespace {

class PromptReadingTest : public ::testing::Test {
 protected:
  PromptReadingTest() {
    directory_.write_chatml();
    spec_.tokenizer = directory_.path();
  }

  static std::size_t tokens(RunningWorker& worker, const std::string& body) {
    const net::HttpResponse answer = worker.post("/tokenize", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto read = openai::parse_tokenize_answer(answer.body);
    return read ? read->tokens.size() : 0;
  }

  static std::uint32_t prompt_tokens(RunningWorker& worker, const std::string& path, const std::string& fields) {
    const net::HttpResponse answer =
        worker.post(path, fmt::format(R"({{"model":"test-model","max_tokens":2,{}}})", fields));
    EXPECT_EQ(answer.status, 200) << answer.body;
    const auto read = openai::parse_chunk(answer.body);
    return read && read->usage ? read->usage->prompt_tokens : 0;
  }

  text::ModelDirectory directory_;
  spec::WorkerSpec spec_ = fast_spec();
};

TEST_F(PromptReadingTest, SpecialTokensOfUsersAreTextUnlessTheSettingSaysOtherwise) {
  const std::string chat = R"({"messages":[{"role":"user","content":"<|im_end|>"}]})";
  const std::string text = R"({"prompt":"<|im_end|>"})";
  RunningWorker careful(spec_);
  spec_.special_tokens_in_messages = true;
  RunningWorker as_vllm(spec_);
  EXPECT_EQ(tokens(careful, chat), tokens(as_vllm, chat) + std::string_view("<|im_end|>").size() - 1);
  EXPECT_EQ(tokens(careful, text), 1U);
  EXPECT_EQ(tokens(as_vllm, text), 1U);
}

TEST_F(PromptReadingTest, TruncatesAsTheRequestSays) {
  RunningWorker worker(spec_);
  const std::string chat = R"("messages":[{"role":"user","content":"0123456789"}])";
  EXPECT_EQ(prompt_tokens(worker, "/v1/chat/completions", chat + R"(,"truncate_prompt_tokens":7)"), 7U);
  EXPECT_EQ(prompt_tokens(worker, "/v1/completions", R"("prompt":"0123456789","truncate_prompt_tokens":7)"), 7U);
  EXPECT_EQ(prompt_tokens(worker, "/v1/completions", R"("prompt":"0123456789","truncate_prompt_tokens":-1)"), 10U);
  EXPECT_EQ(prompt_tokens(worker, "/v1/completions", R"("prompt":[1,2,3],"truncate_prompt_tokens":2)"), 2U);
  EXPECT_EQ(worker.post("/v1/completions", R"({"model":"test-model","prompt":"a","truncate_prompt_tokens":0})").status,
            400);
}

TEST_F(PromptReadingTest, JoinsPartsAndRefusesDocumentsWithoutAPlace) {
  RunningWorker worker(spec_);
  const auto with = [](std::string_view content) {
    return fmt::format(R"({{"messages":[{{"role":"user","content":{}}}]}})", content);
  };
  EXPECT_EQ(tokens(worker, with(R"([{"type":"text","text":"x"},{"type":"text","text":"y"}])")),
            tokens(worker, with(R"("x\ny")")));
  const net::HttpResponse refused = worker.post(
      "/v1/chat/completions",
      R"({"model":"test-model","messages":[{"role":"user","content":"x"}],"documents":[{"title":"t","text":"x"}]})");
  EXPECT_EQ(refused.status, 422);
  EXPECT_TRUE(refused.body.contains("documents: the template of this model has no place for it")) << refused.body;
}

TEST_F(PromptReadingTest, DetokenizeSpellsSpecialTokens) {
  RunningWorker worker(spec_);
  const auto listed =
      openai::parse_tokenize_answer(worker.post("/tokenize", R"({"prompt":"a the<|im_end|> x"})").body).value();
  std::string ids;
  for (const TokenId token : listed.tokens) ids += fmt::format("{}{}", ids.empty() ? "" : ",", token.value());
  EXPECT_EQ(worker.post("/detokenize", fmt::format(R"({{"tokens":[{}]}})", ids)).body,
            R"({"prompt":"a the<|im_end|> x"})");
}

TEST_F(PromptReadingTest, DetokenizeLeavesOutTheSpaceThatTheTokenizerAdds) {
  tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::characters({"\u2581", "a", "b"});
  small.added = {{"<s>"}, {"</s>"}};
  directory_.write("tokenizer.json", small.json());
  directory_.write("tokenizer_config.json", R"({"eos_token":"</s>"})");
  RunningWorker worker(spec_);
  const auto text = [&](const std::string& prompt) {
    const auto listed =
        openai::parse_tokenize_answer(worker.post("/tokenize", fmt::format(R"({{"prompt":"{}"}})", prompt)).body);
    std::string ids;
    for (const TokenId token : listed->tokens) ids += fmt::format("{}{}", ids.empty() ? "" : ",", token.value());
    return worker.post("/detokenize", fmt::format(R"({{"tokens":[{}]}})", ids)).body;
  };
  EXPECT_EQ(text("a b"), R"({"prompt":"a b"})");
  EXPECT_EQ(text("<s>a"), R"({"prompt":"<s> a"})") << "as Hugging Face's library decodes it";
}

TEST_F(PromptReadingTest, TokenizeSpellsTokens) {
  RunningWorker worker(spec_);
  const net::HttpResponse answer =
      worker.post("/tokenize", R"({"prompt":"a the<|im_end|>","return_token_strs":true,"add_special_tokens":false})");
  EXPECT_TRUE(answer.body.ends_with(",\"token_strs\":[\"a\",\"\xC4\xA0the\",\"<|im_end|>\"]}")) << answer.body;
}

}  // namespace
}  // namespace kvist::worker::prompt_reading_test
