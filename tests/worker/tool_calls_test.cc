// Tool calls in the prompt and in the answer.
#include <gtest/gtest.h>

#include <utility>

#include "kvist/openai/tokenize.h"
#include "kvist/text/model_text.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "kvist/worker/answer.h"
#include "running_worker.h"
#include "taken_exchange.h"
#include "text/model_directory.h"

namespace kvist::worker::tool_calls_test {
namespace {

/// Answers made of tokens that a test chooses: bytes, and the marks of all formats as special tokens.
class ToolAnswerTest : public ::testing::Test {
 protected:
  ToolAnswerTest() {
    tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::bytes();
    small.added = {{"<tool_call>"}, {"</tool_call>"}, {"[TOOL_CALLS]"}, {"<|python_tag|>"}, {"<end>"}};
    tokenizer_ = tokenizer::HuggingFaceTokenizer::parse(small.json(), {.end_tokens = {}, .end_token = "<end>"}).value();
  }

  static AnswerOptions reading(std::optional<spec::ToolCallFormat> format, bool several_calls = true) {
    AnswerOptions options;
    options.tool_calls = format;
    options.several_calls = several_calls;
    return options;
  }

  // The body of an answer with these words.
  std::string answer(const std::vector<std::string>& steps, AnswerOptions options, engine::FinishReason finish) {
    const auto exchange = std::make_shared<Taken>();
    options.head = {.id = "chatcmpl-1", .model = "m", .created = 7, .chat = true};
    Answer made(exchange, *tokenizer_, std::move(options), {RequestId(3)});
    made.begin();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::vector<TokenId> tokens;
      tokenizer_->encode_prompt({.text = steps[i], .from_messages = {}}, tokens);
      for (std::span<const TokenId> rest = tokens; !rest.empty();) {
        const std::size_t count = std::min<std::size_t>(rest.size(), 16);  // that one output holds
        engine::RequestOutput output;
        output.id = RequestId(3);
        output.tokens.assign(rest.first(count));
        rest = rest.subspan(count);
        if (rest.empty() && i + 1 == steps.size()) output.finish = finish;
        made.add(0, output, {});
      }
    }
    return exchange->body;
  }

  std::string whole(const std::vector<std::string>& steps, spec::ToolCallFormat format,
                    engine::FinishReason finish = engine::FinishReason::kStop) {
    const std::string body = answer(steps, reading(format), finish);
    const std::size_t begin = body.find(R"("content":)");
    return body.substr(begin, body.find(R"(},"logprobs")", begin) - begin) +
           body.substr(body.find(R"("finish_reason")"), body.find("}],\"usage\"") - body.find(R"("finish_reason")"));
  }

  // The deltas of a stream behind the role's.
  std::vector<std::string> streamed(const std::vector<std::string>& steps, AnswerOptions options) {
    options.stream = true;
    std::vector<std::string> deltas;
    for (const std::string& event : events_of(answer(steps, std::move(options), engine::FinishReason::kStop))) {
      if (event == "[DONE]") continue;
      const std::size_t begin = event.find(R"("delta":)") + 8;
      deltas.push_back(event.substr(begin, event.find(R"(,"logprobs")") - begin));
      if (!event.contains(R"("finish_reason":null)")) deltas.back() += event.substr(event.find(R"("finish_reason")"));
    }
    deltas.erase(deltas.begin());
    return deltas;
  }

  std::unique_ptr<tokenizer::HuggingFaceTokenizer> tokenizer_;
};

using enum spec::ToolCallFormat;

TEST_F(ToolAnswerTest, WholeAnswersCarryCallsAndTheirReason) {
  const std::string called =
      whole({"So.\n<tool_call>\n{\"name\":\"f\",", "\"arguments\":{\"a\":\"é\"}}</tool_call><end>"}, kHermes);
  EXPECT_TRUE(called.starts_with(R"("content":"So.","tool_calls":[{"id":"call_)")) << called;
  EXPECT_TRUE(called.ends_with(R"("type":"function","function":{"name":"f","arguments":"{\"a\":\"é\"}"}}])"
                               R"("finish_reason":"tool_calls")"))
      << called;
  EXPECT_TRUE(
      whole({R"({"name":"f","parameters":{}}<end>)"}, kLlama3Json).contains(R"("content":null,"tool_calls":[)"));
  const std::string cut =
      whole({R"([TOOL_CALLS][{"name":"f","arguments":{}}])"}, kMistral, engine::FinishReason::kLength);
  EXPECT_TRUE(cut.ends_with(R"("finish_reason":"length")")) << "cut off behind a call: " << cut;
}

TEST_F(ToolAnswerTest, WhatIsNoCallIsContent) {
  EXPECT_EQ(whole({"<tool_call>{\"name\":\"f\"", ",<end>"}, kHermes),
            R"("content":"<tool_call>{\"name\":\"f\",""finish_reason":"stop")");
  EXPECT_EQ(whole({"[TOOL_CALLS] none<end>"}, kMistral), R"("content":"[TOOL_CALLS] none""finish_reason":"stop")");
  EXPECT_EQ(whole({"<|python_tag|>f<end>"}, kLlama3Json), R"("content":"<|python_tag|>f""finish_reason":"stop")");
}

TEST_F(ToolAnswerTest, MistralsIdsAreNineCharacters) {
  const std::string body =
      whole({R"([TOOL_CALLS][{"name":"f","arguments":{}},{"name":"f","arguments":{}}]<end>)"}, kMistral);
  const std::size_t first = body.find(R"("id":")") + 6;
  const std::size_t second = body.find(R"("id":")", first) + 6;
  EXPECT_EQ(body.find('"', first) - first, 9U);
  EXPECT_NE(body.substr(first, 9), body.substr(second, 9));
}

TEST_F(ToolAnswerTest, StreamsNameThenArguments) {
  const std::vector<std::string> steps = {"So <tool_call>{\"name\":\"f\",", "\"arguments\":{\"a\":1}}</tool_call>\n",
                                          R"(<tool_call>{"name":"g","arguments":{}}</tool_call><end>)"};
  std::vector<std::string> deltas = streamed(steps, reading(kHermes));
  for (std::string& delta : deltas)
    if (const std::size_t id = delta.find(R"("id":")"); id != std::string::npos) delta.replace(id + 6, 14, "I");
  EXPECT_EQ(
      deltas,
      (std::vector<std::string>{
          R"({"content":"So"})",
          R"({"tool_calls":[{"index":0,"id":"I","type":"function","function":{"name":"f","arguments":""}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}}]})",
          R"({"tool_calls":[{"index":1,"id":"I","type":"function","function":{"name":"g","arguments":""}}]})",
          R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})", R"({}"finish_reason":"tool_calls"}]})"}));
  EXPECT_EQ(streamed(steps, reading(kHermes, false)).size(), 4U) << "the first call only";
  EXPECT_EQ(streamed({"<tool_call>{\"name\":", "<end>"}, reading(kHermes)),
            (std::vector<std::string>{R"({"content":"<tool_call>{\"name\":"})", R"({}"finish_reason":"stop"}]})"}));
}

TEST_F(ToolAnswerTest, LongArgumentsComeInPartsOfWholeCharacters) {
  std::string text = "x";
  while (text.size() < 50'000) text += "é";
  const std::string call = R"(<tool_call>{"name":"f","arguments":{"a":")" + text + "\"}}</tool_call><end>";
  const std::vector<std::string> deltas = streamed({call}, reading(kHermes));
  ASSERT_EQ(deltas.size(), 6U);
  for (const std::string& delta : deltas) {
    EXPECT_LT(delta.size(), 17'000U);
    EXPECT_FALSE(delta.contains("\xEF\xBF\xBD")) << "a character in two";
  }
}

TEST_F(ToolAnswerTest, WithoutAParserMarksThatAreSpecialHaveNoText) {
  const std::string body =
      answer({R"(<tool_call>{"name":"f","arguments":{}}<end>)"}, reading({}), engine::FinishReason::kStop);
  EXPECT_TRUE(body.contains(R"("content":"{\"name\":\"f\",\"arguments\":{}}")")) << body;
}

// -- requests to a worker

constexpr std::string_view kTools = R"("tools":[{"type":"function","function":{"name":"f"}}])";

std::string error_of(const net::HttpResponse& response) {
  return fmt::format("{} {}", response.status, openai::parse_chunk(response.body).value().error.value_or("none"));
}

TEST(ToolRequests, AreRefusedByNameWhereNoTemplateWritesThem) {
  RunningWorker worker;
  const auto chat = [&](std::string_view fields) {
    return error_of(worker.post("/v1/chat/completions", chat_body("x", fields)));
  };
  EXPECT_EQ(chat(kTools), "422 tools: not supported by a worker of bytes, which has no model's template (tokenizer)");
  EXPECT_EQ(chat(R"("chat_template_kwargs":{"a":1})"),
            "422 chat_template_kwargs: not supported by a worker of bytes, which has no model's template (tokenizer)");
  EXPECT_EQ(chat(R"("tool_choice":"required")").substr(0, 28), "400 tool_choice: \"required\" ");
  EXPECT_EQ(
      error_of(worker.post("/v1/chat/completions",
                           R"({"model":"test-model","messages":[{"role":"assistant","tool_calls":[
                                    {"function":{"name":"f","arguments":""}}]}]})")),
      "422 messages[0].tool_calls: not supported by a worker of bytes, which has no model's template (tokenizer)");
}

TEST(ToolRequests, GoThroughTheModelsTemplate) {
  const text::ModelDirectory directory;
  directory.write_chatml();
  spec::WorkerSpec spec = fast_spec();
  spec.tokenizer = directory.path();
  {
    RunningWorker worker(spec);
    EXPECT_EQ(error_of(worker.post("/v1/chat/completions", chat_body("x", kTools))),
              "422 tools: the template of this model has no place for it");
  }
  directory.write("chat_template.jinja",
                  "{{ tools|tojson }}{{ messages|tojson }}{{ thinking }}{{ add_generation_prompt }}{# tool_calls #}");
  spec.tool_parser = kHermes;
  RunningWorker worker(spec);
  const std::string body = R"({"model":"test-model","max_tokens":2,"tool_choice":"none",
      "tools":[{"type":"function","function":{"name":"f"}}],"chat_template_kwargs":{"thinking":"no"},"messages":[
      {"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
      {"role":"tool","tool_call_id":"c","content":"12"}]})";
  const auto tokens = openai::parse_tokenize_answer(worker.post("/tokenize", body).body);
  ASSERT_TRUE(tokens.has_value());
  const auto model = text::ModelText::load(directory.path());
  std::string text;
  for (const TokenId token : tokens->tokens) model->tokenizer->decode(token, text);
  EXPECT_EQ(text, R"([{"type": "function", "function": {"name": "f", "description": null, "parameters": null}}])"
                  R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": )"
                  R"({"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "12", "tool_call_id": "c"}])"
                  "noTrue");
  const auto answered = openai::parse_chunk(worker.post("/v1/chat/completions", body).body);
  ASSERT_TRUE(answered.has_value());
  EXPECT_EQ(answered->usage->prompt_tokens, tokens->tokens.size());
}

TEST(ContinuedMessages, EndThePromptWithoutAnEndOfTurn) {
  RunningWorker worker;
  const auto count = [&](std::string_view fields) {
    return openai::parse_tokenize_answer(worker.post("/tokenize", chat_body("x", fields)).body)->tokens.size();
  };
  const std::size_t header = std::string_view("assistant").size() + 2;
  EXPECT_EQ(count(R"("add_generation_prompt":false)"), count("") - header);
  EXPECT_EQ(count(R"("continue_final_message":true)"), count("") - header - 1);
  EXPECT_EQ(
      worker.post("/v1/chat/completions", chat_body("x", R"("continue_final_message":true,"max_tokens":2)")).status,
      200);
  EXPECT_EQ(
      worker
          .post("/v1/chat/completions", chat_body("x", R"("continue_final_message":true,"add_generation_prompt":true)"))
          .status,
      400);
}

}  // namespace
}  // namespace kvist::worker::tool_calls_test
