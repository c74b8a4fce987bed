#include "kvist/text/model_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "text/model_directory.h"

namespace kvist::text::model_text_test {
namespace {

class ModelTextTest : public ::testing::Test {
 protected:
  ModelTextTest() {
    tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::bytes();
    small.added = {{"<s>"}, {"</s>"}, {"<eot>"}};  // 256, 257, 258
    directory_.write("tokenizer.json", small.json());
  }

  void config(const std::string& json) const { directory_.write("tokenizer_config.json", json); }

  // The prompt of a message "hi", or the error without the directory's name.
  [[nodiscard]] std::string load() const {
    const Result<ModelText> model = ModelText::load(directory_.path());
    if (!model) return "error: " + model.error().message.substr(directory_.path().size() + 1);
    const std::vector<ChatMessage> messages = {{"user", "hi"}};
    const Result<tokenizer::RenderedPrompt> prompt = model->chat_template->render({.messages = messages});
    return prompt ? prompt->text : prompt.error().message;
  }

  [[nodiscard]] std::vector<std::uint32_t> ends() const {
    const Result<ModelText> model = ModelText::load(directory_.path());
    EXPECT_TRUE(model.has_value()) << model.error().message;
    std::vector<std::uint32_t> ids;
    if (model)
      for (const TokenId token : model->tokenizer->end_tokens()) ids.push_back(token.value());
    return ids;
  }

  ModelDirectory directory_;
};

TEST_F(ModelTextTest, ReadsSpecialTokensAndTemplate) {
  config(R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
             "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}"})");
  EXPECT_EQ(load(), "<s>hi</s>False");
  EXPECT_EQ(ends(), (std::vector<std::uint32_t>{257}));
}

TEST_F(ModelTextTest, ChoosesAmongNamedTemplatesAndItsFile) {
  config(R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(load(), "d");
  directory_.write("chat_template.jinja", "file\n");
  EXPECT_EQ(load(), "file");
  const auto with_tools = [&] {
    const Result<ModelText> model = ModelText::load(directory_.path());
    if (!model) return "error: " + model.error().message;
    const std::vector<ChatMessage> messages = {{"user", "hi"}};
    return model->chat_template->render({.messages = messages, .tools = "[{}]"})->text;
  };
  EXPECT_EQ(with_tools(), "file");
  std::filesystem::create_directory(directory_.path() + "/additional_chat_templates");
  directory_.write("additional_chat_templates/tool_use.jinja", "{{ tools|length }}");
  EXPECT_EQ(with_tools(), "1");
  EXPECT_EQ(load(), "file");
}

TEST_F(ModelTextTest, TakesNoLimitAsItIsWritten) {
  config(
      R"({"model_max_length": 1000000000000000019884624838656, "chat_template": "1000000000000000019884624838656 \" x"})");
  EXPECT_EQ(load(), "1000000000000000019884624838656 \" x");
}

TEST_F(ModelTextTest, GathersEndTokens) {
  config(R"({"eos_token": "</s>"})");
  EXPECT_EQ(load(), "the model has no chat template: use /v1/completions");
  directory_.write("config.json", R"({"eos_token_id": 256})");
  EXPECT_EQ(ends(), (std::vector<std::uint32_t>{257, 256}));
  directory_.write("generation_config.json", R"({"eos_token_id": [258, 257]})");
  EXPECT_EQ(ends(), (std::vector<std::uint32_t>{257, 258}));
}

TEST_F(ModelTextTest, ErrorsNameTheProblemAndItsPlace) {
  EXPECT_EQ(load(), "error: tokenizer_config.json: No such file or directory");
  config("{");
  EXPECT_TRUE(load().starts_with("error: tokenizer_config.json: not valid JSON"));
  config(R"({"chat_template": "a\n{{ x|nope }}"})");
  EXPECT_TRUE(
      load().starts_with("error: tokenizer_config.json: chat_template: line 2, column 6: unknown filter 'nope'"))
      << load();
  directory_.write("chat_template.jinja", "{% if %}");
  EXPECT_TRUE(load().starts_with("error: chat_template.jinja: line 1, column 7: expected an expression")) << load();
  directory_.write("chat_template.jinja", "x");
  config(R"({"eos_token": "<nope>"})");
  EXPECT_EQ(load(), "error: tokenizer.json: the end token \"<nope>\" is not in the vocabulary");
  config(R"({"bos_token": 7})");
  EXPECT_TRUE(load().starts_with("error: tokenizer_config.json: bos_token: ")) << load();
  config("{}");
  directory_.write("generation_config.json", R"({"eos_token_id": 9999})");
  EXPECT_EQ(load(), "error: tokenizer.json: end token 9999 is not in the vocabulary");
  directory_.write("generation_config.json", R"({"eos_token_id": "x"})");
  EXPECT_TRUE(load().starts_with("error: generation_config.json: eos_token_id: ")) << load();
}

}  // namespace
}  // namespace kvist::text::model_text_test
