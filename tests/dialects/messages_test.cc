// Anthropic's Messages API as chat completions, and back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/dialects/dialect.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "stream.h"

namespace kvist::dialects::messages_test {
namespace {

std::string chat_of(std::string_view body) {
  const auto translation = translate(Dialect::kMessages, body);
  return translation ? translation->body : "ERROR " + translation.error().message;
}

Error refusal_of(std::string_view body) {
  const auto translation = translate(Dialect::kMessages, body);
  return translation ? Error{.message = "accepted"} : translation.error();
}

TEST(Messages, TextBecomesAChat) {
  EXPECT_EQ(chat_of(R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})"),
            R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":false})");
}

TEST(Messages, EverySettingHasItsCounterpart) {
  EXPECT_EQ(
      chat_of(
          R"({"model":"m","max_tokens":5,"system":[{"type":"text","text":"Be short.","cache_control":{"type":"ephemeral"}}],)"
          R"("messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"temperature":0.5,"top_k":3,"seed":7,)"
          R"("stop_sequences":["x"],"metadata":{"user_id":"u1"},"stream":true,"thinking":{"type":"disabled"},)"
          R"("output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}},)"
          R"("tool_choice":{"type":"any","disable_parallel_tool_use":true},)"
          R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":null}]})"),
      R"({"model":"m","messages":[{"role":"system","content":"Be short."},{"role":"user","content":"Hi"}],)"
      R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"max_tokens":5,)"
      R"("tool_choice":"required","parallel_tool_calls":false,"stop":["x"],"user":"u1","reasoning_effort":"low",)"
      R"("response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}},)"
      R"("stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_k":3,"seed":7})");
}

// A part of it is new in every request, so that with it no two prompts would begin alike.
TEST(Messages, TheAccountingOfClaudeCodeIsNoPartOfThePrompt) {
  const auto chat_with = [](std::string_view system) {
    return chat_of(fmt::format(
        R"({{"model":"m","max_tokens":5,"system":{},"messages":[{{"role":"user","content":"x-anthropic-billing-header: hi"}}]}})",
        system));
  };
  const std::string_view line = R"(x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;)";
  const std::string expected =
      R"({"model":"m","messages":[{"role":"system","content":"You help."},)"
      R"({"role":"user","content":"x-anthropic-billing-header: hi"}],"max_tokens":5,"stream":false})";
  EXPECT_EQ(chat_with(fmt::format(R"([{{"type":"text","text":"{}"}},{{"type":"text","text":"You help."}}])", line)),
            expected);
  EXPECT_EQ(chat_with(fmt::format(R"([{{"type":"text","text":"{}\nYou help."}}])", line)), expected);
  EXPECT_EQ(chat_with(fmt::format(R"("{}\nYou help.")", line)), expected);
  EXPECT_EQ(chat_with(fmt::format(R"("{}")", line)),
            R"({"model":"m","messages":[{"role":"user","content":"x-anthropic-billing-header: hi"}],)"
            R"("max_tokens":5,"stream":false})");
}

TEST(Messages, TheSystemMaySpeakAmidTheOthers) {
  EXPECT_EQ(chat_of(R"({"model":"m","max_tokens":5,"system":"S","messages":[{"role":"user","content":"Hi"},)"
                    R"({"role":"system","content":[{"type":"text","text":"Be short."}]},)"
                    R"({"role":"user","content":"And?"},{"role":"system","content":"Now."}]})"),
            R"({"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"},)"
            R"({"role":"system","content":"Be short."},{"role":"user","content":"And?"},)"
            R"({"role":"system","content":"Now."}],"max_tokens":5,"stream":false})");
}

TEST(Messages, AConversationWithToolsBecomesCallsAndResults) {
  const std::string chat = chat_of(
      R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"s"},{"type":"text","text":"Let me see."},)"
      R"({"type":"tool_use","id":"c1","name":"weather","input":{"city":"Ulm"}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"Rain"}]},)"
      R"({"type":"text","text":"And?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]}]})");
  EXPECT_EQ(
      chat,
      R"({"model":"m","messages":[{"role":"user","content":"Weather?"},)"
      R"({"role":"assistant","content":"Let me see.","reasoning":"Hm.","reasoning_content":"Hm.","tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"weather","arguments":"{\"city\":\"Ulm\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"Rain"},)"
      R"({"role":"user","content":[{"type":"text","text":"And?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}],)"
      R"("max_tokens":5,"stream":false})");
  EXPECT_TRUE(openai::parse_chat_request(chat, openai::ReadFor::kRouting).has_value());
}

TEST(Messages, AnAnswerGoesOnWithALastMessageOfTheAssistant) {
  const std::string chat = chat_of(
      R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Count"},{"role":"assistant","content":"1, 2,"}]})");
  const auto read = openai::parse_chat_request(chat);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_TRUE(read->continue_final_message);
  EXPECT_FALSE(read->add_generation_prompt);
}

// Chats have no images in the messages of tools, and few templates write them there.
TEST(Messages, TheUserShowsTheImagesThatToolsGave) {
  const std::string_view image = R"({"type":"image","source":{"type":"url","url":"http://x/a.png"}})";
  const std::string_view shown = R"({"type":"image_url","image_url":{"url":"http://x/a.png"}})";
  const std::string results = fmt::format(
      R"({{"type":"tool_result","tool_use_id":"a","content":[{{"type":"text","text":"A"}},{}]}},)"
      R"({{"type":"tool_result","tool_use_id":"b","content":[{}]}},{{"type":"tool_result","tool_use_id":"c"}})",
      image, image);
  const std::string tools = R"({"role":"tool","tool_call_id":"a","content":"A"},)"
                            R"({"role":"tool","tool_call_id":"b","content":""},)"
                            R"({"role":"tool","tool_call_id":"c","content":""},)";
  const auto chat_with = [&](std::string_view behind) {
    return chat_of(fmt::format(R"({{"model":"m","max_tokens":5,"messages":[{{"role":"user","content":[{}{}]}}]}})",
                               results, behind));
  };
  EXPECT_EQ(
      chat_with(""),
      fmt::format(R"({{"model":"m","messages":[{}{{"role":"user","content":[{},{}]}}],"max_tokens":5,"stream":false}})",
                  tools, shown, shown));
  EXPECT_EQ(
      chat_with(R"(,{"type":"text","text":"And?"})"),
      fmt::format(R"({{"model":"m","messages":[{}{{"role":"user","content":[{},{},{{"type":"text","text":"And?"}}]}}],)"
                  R"("max_tokens":5,"stream":false}})",
                  tools, shown, shown));
}

TEST(Messages, WithoutToolsThereIsNothingToChoose) {
  const std::string rest = R"("messages":[{"role":"user","content":"Hi"}]})";
  for (const std::string_view choice : {"auto", "none"}) {
    EXPECT_EQ(chat_of(fmt::format(R"({{"model":"m","max_tokens":5,"tools":[],"tool_choice":{{"type":"{}"}},{})", choice,
                                  rest)),
              R"({"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":5,"stream":false})");
  }
  EXPECT_TRUE(chat_of(R"({"model":"m","max_tokens":5,"tool_choice":{"type":"any"},)" + rest)
                  .contains(R"("tool_choice":"required")"))
      << "the worker says what is missing";
}

TEST(Messages, RefusalsNameTheField) {
  struct Case {
    std::string body;
    ErrorCode code;
    std::string message;
  };
  const std::string rest = R"("messages":[{"role":"user","content":"Hi"}]})";
  const std::vector<Case> cases = {
      {"{", ErrorCode::kInvalidArgument, "body: "},
      {R"({"model":"m",)" + rest, ErrorCode::kInvalidArgument, "max_tokens: "},
      {R"({"max_tokens":1,)" + rest, ErrorCode::kInvalidArgument, "model: "},
      {R"({"model":"m","max_tokens":0,)" + rest, ErrorCode::kInvalidArgument, "max_tokens: "},
      {R"({"model":"m","max_tokens":1,"messages":[]})", ErrorCode::kInvalidArgument, "messages: "},
      {R"({"model":"m","max_tokens":1,"messages":[{"role":"tool","content":"x"}]})", ErrorCode::kInvalidArgument,
       "messages[0].role: "},
      {R"({"model":"m","max_tokens":1,"messages":[{"role":"system","content":[{"type":"image"}]}]})",
       ErrorCode::kUnsupported, "messages[0].content[0].type: "},
      {R"({"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"document"}]}]})",
       ErrorCode::kUnsupported, "messages[0].content[0].type: "},
      {R"({"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"server_tool_use"}]}]})",
       ErrorCode::kUnsupported, "messages[0].content[0].type: "},
      {R"({"model":"m","max_tokens":1,"tools":[{"type":"web_search_20250305","name":"web_search"}],)" + rest,
       ErrorCode::kUnsupported, "tools[0].type: "},
      {R"({"model":"m","max_tokens":1,"mcp_servers":[{"url":"x"}],)" + rest, ErrorCode::kUnsupported, "mcp_servers: "},
      {R"({"model":"m","max_tokens":1,"tool_choice":{"type":"all"},)" + rest, ErrorCode::kInvalidArgument,
       "tool_choice.type: "},
  };
  for (const Case& bad : cases) {
    const Error error = refusal_of(bad.body);
    EXPECT_EQ(error.code, bad.code) << bad.body << ": " << error.message;
    EXPECT_TRUE(error.message.starts_with(bad.message)) << bad.body << ": " << error.message;
  }
}

TEST(Messages, TheCountIsThatOfTokenize) {
  auto translation = translate(
      Dialect::kCountTokens,
      R"({"model":"m","system":"S","messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f","input_schema":{}}]})");
  ASSERT_TRUE(translation.has_value()) << translation.error().message;
  EXPECT_EQ(translation->path, "/tokenize");
  EXPECT_EQ(translation->body,
            R"({"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}],)"
            R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}]})");
  EXPECT_EQ(translation->answer->whole(R"({"count":17,"max_model_len":100,"tokens":[1,2]})"), R"({"input_tokens":17})");
  EXPECT_FALSE(translation->answer->whole(R"({"tokens":[1,2]})").has_value());
}

std::unique_ptr<AnswerTranslator> translator() {
  return std::move(
      translate(Dialect::kMessages, R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]})")
          ->answer);
}

TEST(Messages, AWholeAnswer) {
  EXPECT_EQ(
      *translator()->whole(
          R"({"id":"chatcmpl-7","model":"m","created":5,"choices":[{"index":0,"message":{"role":"assistant","content":"Hello",)"
          R"("reasoning_content":"Hm."},"finish_reason":"length"}],)"
          R"("usage":{"prompt_tokens":50,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}}})"),
      R"({"id":"msg_7","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm.","signature":""},)"
      R"({"type":"text","text":"Hello"}],"stop_reason":"max_tokens","stop_sequence":null,)"
      R"("usage":{"input_tokens":18,"cache_creation_input_tokens":0,"cache_read_input_tokens":32,"output_tokens":2}})");
}

TEST(Messages, AWholeAnswerWithCalls) {
  const auto answer = translator()->whole(
      R"({"id":"chatcmpl-7","model":"m","choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"x\": 1}"}},{"id":"b","function":{"name":"g","arguments":"no object"}}]},)"
      R"("finish_reason":"tool_calls"}]})");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_TRUE(answer->contains(R"("content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1}},)"
                               R"({"type":"tool_use","id":"b","name":"g","input":{"arguments":"no object"}}])"))
      << *answer;
  EXPECT_TRUE(answer->contains(R"("stop_reason":"tool_use")")) << *answer;
}

TEST(Messages, AForcedCallIsToolUseToo) {
  const auto whole = translator()->whole(
      R"({"id":"x","choices":[{"message":{"content":"","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},)"
      R"("finish_reason":"stop"}]})");
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_TRUE(whole->contains(R"("stop_reason":"tool_use")")) << *whole;
  const auto events = events_of(
      *translator(),
      {R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{},"finish_reason":"stop"}]})", "[DONE]"});
  ASSERT_GE(events.size(), 2U);
  EXPECT_TRUE(events[events.size() - 2].data.contains(R"("stop_reason":"tool_use")"));
}

TEST(Messages, StopReasons) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("finish_reason":"stop")", R"("stop_reason":"end_turn","stop_sequence":null)"},
      {R"("finish_reason":"stop","stop_reason":2)", R"("stop_reason":"end_turn","stop_sequence":null)"},
      {R"("finish_reason":"stop","stop_reason":"END")", R"("stop_reason":"stop_sequence","stop_sequence":"END")"},
      {R"("finish_reason":"length")", R"("stop_reason":"max_tokens")"},
      {R"("finish_reason":"tool_calls")", R"("stop_reason":"tool_use")"},
      {R"("finish_reason":"content_filter")", R"("stop_reason":"refusal")"},
  };
  for (const auto& [finish, stop] : cases) {
    const auto answer = translator()->whole(R"({"id":"x","choices":[{"message":{"content":"a"},)" + finish + "}]}");
    ASSERT_TRUE(answer.has_value()) << answer.error().message;
    EXPECT_TRUE(answer->contains(stop)) << finish << ": " << *answer;
  }
}

TEST(Messages, AStream) {
  const auto events = events_of(
      *translator(),
      {R"({"id":"chatcmpl-7","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"reasoning_content":"Hm."}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"content":"Hel"}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"content":"lo"}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]})",
       R"({"id":"chatcmpl-7","choices":[{"delta":{},"finish_reason":"tool_calls"}]})",
       R"({"id":"chatcmpl-7","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}})",
       "[DONE]"});
  const std::vector<StreamEvent> expected = {
      {"message_start",
       R"({"type":"message_start","message":{"id":"msg_7","type":"message","role":"assistant","model":"m","content":[],)"
       R"("stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,)"
       R"("cache_read_input_tokens":0,"output_tokens":0}}})"},
      {"content_block_start",
       R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})"},
      {"content_block_delta",
       R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}})"},
      {"content_block_stop", R"({"type":"content_block_stop","index":0})"},
      {"content_block_start", R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})"},
      {"content_block_delta", R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}})"},
      {"content_block_delta", R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}})"},
      {"content_block_stop", R"({"type":"content_block_stop","index":1})"},
      {"content_block_start",
       R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}})"},
      {"content_block_delta",
       R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\":"}})"},
      {"content_block_delta",
       R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}})"},
      {"content_block_stop", R"({"type":"content_block_stop","index":2})"},
      {"message_delta",
       R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":7,)"
       R"("cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":4}})"},
      {"message_stop", R"({"type":"message_stop"})"},
  };
  EXPECT_EQ(events, expected);
}

TEST(Messages, AnErrorFrameEndsAStream) {
  const auto events = events_of(
      *translator(), {R"({"id":"x","choices":[{"delta":{"content":"a"}}]})",
                      R"({"error":{"message":"the engine died","type":"t","param":null,"code":500}})", "[DONE]"});
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(events.back().data,
            R"({"type":"error","error":{"type":"api_error","message":"the engine died"},"request_id":null})");
}

TEST(Messages, AnAnswerThatWasCutIsAnError) {
  const std::string error =
      R"({"type":"error","error":{"type":"api_error","message":"the worker's answer ended without a finish_reason"},)"
      R"("request_id":null})";
  const std::string content = R"({"id":"x","choices":[{"delta":{"content":"a"}}]})";
  for (const std::vector<std::string>& data : {std::vector<std::string>{content, "[DONE]"}, {content}, {"[DONE]"}}) {
    const auto events = events_of(*translator(), data);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.back().name, "error");
    EXPECT_EQ(events.back().data, error);
  }
}

TEST(Messages, CallsThatOverlapAreAnError) {
  auto answer = translator();
  std::string out;
  const auto call = [&](int index) {
    return answer->on_event(R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":)" + std::to_string(index) +
                                R"(,"function":{"arguments":"1"}}]}}]})",
                            out);
  };
  EXPECT_TRUE(call(0).has_value());
  EXPECT_TRUE(call(1).has_value());
  EXPECT_EQ(call(0).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(answer->on_event("no json", out).error().code, ErrorCode::kCorrupt);
}

TEST(Messages, CallsThatDifferByTheirIdsAloneAreSeveral) {
  const auto events = events_of(
      *translator(),
      {R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1}"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]})",
       R"({"id":"x","choices":[{"delta":{},"finish_reason":"tool_calls"}]})", "[DONE]"});
  std::vector<std::string> calls;
  for (const StreamEvent& event : events) {
    if (event.name == "content_block_start" || event.name == "content_block_delta") calls.push_back(event.data);
  }
  ASSERT_EQ(calls.size(), 5U);
  EXPECT_TRUE(calls[0].contains(R"("index":0,"content_block":{"type":"tool_use","id":"a","name":"f")")) << calls[0];
  EXPECT_TRUE(calls[2].contains(R"("index":0,"delta":{"type":"input_json_delta","partial_json":"1}"})")) << calls[2];
  EXPECT_TRUE(calls[3].contains(R"("index":1,"content_block":{"type":"tool_use","id":"b","name":"g")")) << calls[3];
  EXPECT_TRUE(calls[4].contains(R"("index":1,"delta":{"type":"input_json_delta","partial_json":"{}"})")) << calls[4];
}

TEST(Messages, ErrorsHaveAnthropicsTypes) {
  const std::vector<std::pair<int, std::string>> types = {
      {400, "invalid_request_error"}, {401, "authentication_error"},
      {403, "permission_error"},      {404, "not_found_error"},
      {413, "request_too_large"},     {422, "invalid_request_error"},
      {429, "rate_limit_error"},      {500, "api_error"},
      {503, "overloaded_error"},      {504, "timeout_error"}};
  for (const auto& [status, type] : types)
    EXPECT_EQ(error_body(Dialect::kMessages, status, openai::error_body("why", "t", "", status), "r1"),
              R"({"type":"error","error":{"type":")" + type + R"(","message":"why"},"request_id":"r1"})");
  EXPECT_EQ(error_body(Dialect::kCountTokens, 502, "<html>", ""),
            R"({"type":"error","error":{"type":"api_error","message":"<html>"},"request_id":null})");
}

TEST(Messages, ErrorsNameTheClientsFields) {
  const auto told = [](std::string_view message) {
    const std::string body = error_body(Dialect::kMessages, 400, openai::error_body(message, "t", "", 400), "");
    const std::string begin = R"({"type":"error","error":{"type":"invalid_request_error","message":")";
    return body.substr(begin.size(), body.find(R"("},"request_id")") - begin.size());
  };
  EXPECT_EQ(told("stop[1]: 500 bytes"), "stop_sequences[1]: 500 bytes");
  EXPECT_EQ(told("user: too long"), "metadata.user_id: too long");
  EXPECT_EQ(told("response_format.json_schema.schema: wrong"), "output_config.format: wrong");
  EXPECT_EQ(told("the value of reasoning_effort is wrong"), "the value of output_config.effort is wrong");
  EXPECT_EQ(told("max_tokens: the user must stop"), "max_tokens: the user must stop");
  EXPECT_EQ(told("messages[0].content: wrong"), "messages[0].content: wrong");
  EXPECT_EQ(told("my_response_format, response_format2"), "my_response_format, response_format2");
}

}  // namespace
}  // namespace kvist::dialects::messages_test
