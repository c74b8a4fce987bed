// OpenAI's Responses API as chat completions, and back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/dialects/dialect.h"
#include "kvist/openai/errors.h"
#include "stream.h"

namespace kvist::dialects::responses_test {
namespace {

std::string chat_of(std::string_view body) {
  const auto translation = translate(Dialect::kResponses, body);
  return translation ? translation->body : "ERROR " + translation.error().message;
}

std::unique_ptr<AnswerTranslator> translator() {
  return std::move(translate(Dialect::kResponses, R"({"model":"m","input":"Hi","temperature":0})")->answer);
}

TEST(Responses, TextBecomesAChat) {
  EXPECT_EQ(chat_of(R"({"model":"m","input":"Hi","instructions":"Be short.","max_output_tokens":5})"),
            R"({"model":"m","messages":[{"role":"system","content":"Be short."},{"role":"user","content":"Hi"}],)"
            R"("max_tokens":5,"stream":false})");
}

TEST(Responses, EverySettingHasItsCounterpart) {
  EXPECT_EQ(
      chat_of(
          R"({"model":"m","input":"Hi","stream":true,"store":false,"temperature":0.5,"seed":3,"prompt_cache_key":"k",)"
          R"("reasoning":{"effort":"low"},"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},)"
          R"("tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false}],)"
          R"("tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,"metadata":{"a":"b"}})"),
      R"({"model":"m","messages":[{"role":"user","content":"Hi"}],)"
      R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":false}}],)"
      R"("parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"f"}},"reasoning_effort":"low",)"
      R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}},)"
      R"("prompt_cache_key":"k","stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"seed":3})");
}

TEST(Responses, ItemsOfOneTurnAreOneMessage) {
  EXPECT_EQ(
      chat_of(
          R"({"model":"m","input":[{"role":"developer","content":"D"},)"
          R"({"role":"user","content":[{"type":"input_text","text":"Weather?"}]},)"
          R"({"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},)"
          R"({"type":"message","role":"assistant","id":"i","content":[{"type":"output_text","text":"Let me see.","annotations":[]}]},)"
          R"({"type":"function_call","call_id":"c1","name":"weather","arguments":"{}"},)"
          R"({"type":"function_call","call_id":"c2","name":"time","arguments":"{}"},)"
          R"({"type":"function_call_output","call_id":"c1","output":"Rain"},)"
          R"({"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"Noon"}]}]})"),
      R"({"model":"m","messages":[{"role":"developer","content":"D"},{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":"Let me see.","reasoning":"Hm.","reasoning_content":"Hm.","tool_calls":[)"
      R"({"id":"c1","type":"function","function":{"name":"weather","arguments":"{}"}},)"
      R"({"id":"c2","type":"function","function":{"name":"time","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"Rain"},{"role":"tool","tool_call_id":"c2","content":"Noon"}],)"
      R"("stream":false})");
}

// Chats have no images in the messages of tools, and few templates write them there.
TEST(Responses, TheUserShowsTheImagesThatToolsGave) {
  const auto chat_with = [](std::string_view behind) {
    return chat_of(
        fmt::format(R"({{"model":"m","input":[{{"type":"function_call_output","call_id":"a","output":[)"
                    R"({{"type":"input_text","text":"A"}},{{"type":"input_image","image_url":"http://x/a.png"}}]}},)"
                    R"({{"type":"function_call_output","call_id":"b","output":"B"}}{}]}})",
                    behind));
  };
  const std::string chat = R"({"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"A"},)"
                           R"({"role":"tool","tool_call_id":"b","content":"B"},)"
                           R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/a.png"}}]})";
  EXPECT_EQ(chat_with(""), chat + R"(],"stream":false})");
  EXPECT_EQ(chat_with(R"(,{"role":"assistant","content":"C"})"),
            chat + R"(,{"role":"assistant","content":"C"}],"stream":false})");
}

TEST(Responses, WhatWouldHaveToBeStoredIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("store":true)", "store: "},
      {R"("previous_response_id":"resp_1")", "previous_response_id: "},
      {R"("conversation":"conv_1")", "conversation: "},
      {R"("background":true)", "background: "},
      {R"("prompt":{"id":"p"})", "prompt: "},
      {R"("truncation":"auto")", "truncation: "},
      {R"("top_logprobs":3)", "top_logprobs: "},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type: "},
      {R"("text":{"format":{"type":"grammar"}})", "text.format.type: "},
  };
  for (const auto& [field, message] : cases) {
    const auto translation = translate(Dialect::kResponses, R"({"model":"m","input":"Hi",)" + field + "}");
    ASSERT_FALSE(translation.has_value()) << field;
    EXPECT_EQ(translation.error().code, ErrorCode::kUnsupported) << field;
    EXPECT_TRUE(translation.error().message.starts_with(message)) << translation.error().message;
  }
  for (const std::string_view bad :
       {R"({"model":"m"})", R"({"input":"Hi"})", R"({"model":"m","input":[]})", R"({"model":"m","input":5})",
        R"({"model":"m","input":[{"role":"tool","content":"x"}]})", "[]"})
    EXPECT_EQ(translate(Dialect::kResponses, bad).error().code, ErrorCode::kInvalidArgument) << bad;
  EXPECT_EQ(
      translate(Dialect::kResponses, R"({"model":"m","input":[{"type":"item_reference","id":"x"}]})").error().code,
      ErrorCode::kUnsupported);
}

constexpr std::string_view kEcho =
    R"("background":false,"store":false,"truncation":"disabled","service_tier":"default","instructions":null,)"
    R"("max_output_tokens":null,"max_tool_calls":null,"parallel_tool_calls":true,"previous_response_id":null,)"
    R"("prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"temperature":0,)"
    R"("text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"user":null,"metadata":{}})";

// Some clients always give a choice, which the Responses API allows.
TEST(Responses, WithoutToolsThereIsNothingToChoose) {
  EXPECT_EQ(chat_of(R"({"model":"m","input":"Hi","tools":[],"tool_choice":"auto","parallel_tool_calls":false})"),
            R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":false})");
  EXPECT_EQ(chat_of(R"({"model":"m","input":"Hi","tool_choice":"none"})"),
            R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":false})");
  EXPECT_TRUE(
      chat_of(R"({"model":"m","input":"Hi","tool_choice":"required"})").contains(R"("tool_choice":"required")"));
}

TEST(Responses, AWholeAnswer) {
  const auto answer = translator()->whole(
      R"({"id":"chatcmpl-7","model":"m","created":5,"choices":[{"index":0,"message":{"role":"assistant","content":"Hello",)"
      R"("tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],)"
      R"("usage":{"prompt_tokens":50,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}}})");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(*answer,
            R"({"id":"resp_7","object":"response","created_at":5,"status":"completed","model":"m","error":null,)"
            R"("incomplete_details":null,"output":[{"id":"msg_0_7","type":"message","role":"assistant",)"
            R"("content":[{"type":"output_text","text":"Hello","annotations":[],"logprobs":[]}],"status":"completed"},)"
            R"({"id":"fc_1_7","type":"function_call","call_id":"a","name":"f","arguments":"{}","status":"completed"}],)"
            R"("usage":{"input_tokens":50,"input_tokens_details":{"cached_tokens":32},"output_tokens":2,)"
            R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":52},)" +
                std::string(kEcho));
}

TEST(Responses, AnAnswerThatWasCutIsIncomplete) {
  const auto answer =
      translator()->whole(R"({"id":"x","choices":[{"message":{"content":"a"},"finish_reason":"length"}]})");
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->contains(R"("status":"incomplete")")) << *answer;
  EXPECT_TRUE(answer->contains(R"("incomplete_details":{"reason":"max_output_tokens"})")) << *answer;
  EXPECT_TRUE(answer->contains(R"("logprobs":[]}],"status":"incomplete"}])")) << *answer;
}

TEST(Responses, OnlyTheItemThatWasCutIsIncomplete) {
  const auto events = events_of(
      *translator(),
      {R"({"id":"x","choices":[{"delta":{"content":"a"}}]})",
       R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{},"finish_reason":"length"}]})", "[DONE]"});
  ASSERT_EQ(events.back().name, "response.incomplete");
  EXPECT_TRUE(events.back().data.contains(R"("logprobs":[]}],"status":"completed"},)")) << events.back().data;
  EXPECT_TRUE(events.back().data.contains(R"("name":"f","arguments":"{","status":"incomplete"}])"))
      << events.back().data;
  const StreamEvent& done = events[events.size() - 2];
  EXPECT_EQ(done.name, "response.output_item.done");
  EXPECT_TRUE(done.data.contains(R"("status":"incomplete"}})")) << done.data;
}

std::vector<std::string> names_of(const std::vector<StreamEvent>& events) {
  std::vector<std::string> names;
  for (const StreamEvent& event : events) names.push_back(event.name);
  return names;
}

TEST(Responses, AStream) {
  const auto events = events_of(
      *translator(),
      {R"({"id":"chatcmpl-7","model":"m","created":5,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"reasoning_content":"Hm."}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"content":"Hel"}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"content":"lo"}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{},"finish_reason":"tool_calls"}]})",
       R"({"id":"chatcmpl-7","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}})",
       "[DONE]"});
  EXPECT_EQ(names_of(events), (std::vector<std::string>{"response.created",
                                                        "response.in_progress",
                                                        "response.output_item.added",
                                                        "response.content_part.added",
                                                        "response.reasoning_text.delta",
                                                        "response.reasoning_text.done",
                                                        "response.content_part.done",
                                                        "response.output_item.done",
                                                        "response.output_item.added",
                                                        "response.content_part.added",
                                                        "response.output_text.delta",
                                                        "response.output_text.delta",
                                                        "response.output_text.done",
                                                        "response.content_part.done",
                                                        "response.output_item.done",
                                                        "response.output_item.added",
                                                        "response.function_call_arguments.delta",
                                                        "response.function_call_arguments.done",
                                                        "response.output_item.done",
                                                        "response.completed"}));
  JsonDocument json;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto root = json.parse_object(events[i].data);
    ASSERT_TRUE(root.has_value()) << events[i];
    EXPECT_EQ(*root->require_string("type"), events[i].name);
    EXPECT_EQ(*root->require_unsigned("sequence_number", 0, 100), i);
  }
  EXPECT_EQ(events[10].data,
            R"({"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_1_7","output_index":1,)"
            R"("content_index":0,"delta":"Hel","logprobs":[]})");
  EXPECT_EQ(events[18].data,
            R"({"type":"response.output_item.done","sequence_number":18,"output_index":2,"item":{"id":"fc_2_7",)"
            R"("type":"function_call","call_id":"a","name":"f","arguments":"{}","status":"completed"}})");
  EXPECT_TRUE(events[19].data.contains(R"("text":"Hello")"));
  EXPECT_TRUE(events[19].data.contains(R"("input_tokens_details":{"cached_tokens":2})"));
}

TEST(Responses, CallsThatDifferByTheirIdsAloneAreSeveral) {
  const auto events = events_of(
      *translator(),
      {R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{},"finish_reason":"tool_calls"}]})", "[DONE]"});
  ASSERT_EQ(events.back().name, "response.completed");
  EXPECT_TRUE(events.back().data.contains(
      R"("call_id":"a","name":"f","arguments":"{\"x\":1}","status":"completed"},{"id":"fc_1_x",)"
      R"("type":"function_call","call_id":"b","name":"g","arguments":"{}","status":"completed"}])"))
      << events.back().data;
}

TEST(Responses, AnErrorFrameFailsTheResponse) {
  const auto events =
      events_of(*translator(), {R"({"id":"x","choices":[{"delta":{"content":"a"}}]})",
                                R"({"error":{"message":"the engine died","type":"t","param":null,"code":500}})"});
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events[events.size() - 2].name, "error");
  EXPECT_EQ(events.back().name, "response.failed");
  EXPECT_TRUE(events.back().data.contains(R"("error":{"code":"server_error","message":"the engine died"})"));
}

TEST(Responses, AnAnswerWithoutAReasonHasFailed) {
  const auto cut = events_of(*translator(), {R"({"id":"x","choices":[{"delta":{"content":"a"}}]})", "[DONE]"});
  ASSERT_GE(cut.size(), 2U);
  EXPECT_EQ(cut[cut.size() - 2].name, "error");
  EXPECT_TRUE(cut[cut.size() - 2].data.contains("the worker's answer ended without a finish_reason"));
  EXPECT_EQ(cut.back().name, "response.failed");
  EXPECT_EQ(names_of(events_of(*translator(), {"[DONE]"})), (std::vector<std::string>{"error"}));
}

TEST(Responses, WhatIsKeptIsBounded) {
  auto answer = translator();
  const std::string megabyte(1 << 20, 'x');
  std::string out;
  for (int i = 0; i < 16; ++i) {
    out.clear();
    ASSERT_TRUE(answer->on_event(R"({"id":"x","choices":[{"delta":{"content":")" + megabyte + R"("}}]})", out));
  }
  EXPECT_EQ(answer->on_event(R"({"id":"x","choices":[{"delta":{"content":"x"}}]})", out).error().code,
            ErrorCode::kTooLarge);
}

TEST(Responses, ErrorsNameTheClientsFields) {
  const auto told = [](std::string_view message, std::string_view param) {
    return error_body(Dialect::kResponses, 400, openai::error_body(message, "t", param, 400), "");
  };
  EXPECT_EQ(told("min_tokens: expected at most max_tokens, which is 5, got 6", "min_tokens"),
            R"({"error":{"message":"min_tokens: expected at most max_output_tokens, which is 5, got 6","type":"t",)"
            R"("param":"min_tokens","code":400}})");
  EXPECT_EQ(told("messages[1].content[0].type: \"x\"", "messages[1].content[0].type"),
            R"({"error":{"message":"input: \"x\"","type":"t","param":"input","code":400}})");
  EXPECT_EQ(told("response_format: no", "response_format"),
            R"({"error":{"message":"text.format: no","type":"t","param":"text.format","code":400}})");
  EXPECT_EQ(told("all is wrong", ""), openai::error_body("all is wrong", "t", "", 400));
  EXPECT_EQ(error_body(Dialect::kResponses, 502, "<html>", ""), "<html>");
}

}  // namespace
}  // namespace kvist::dialects::responses_test
