// Request fields for tools and for the end of the prompt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "kvist/openai/codec.h"
#include "kvist/openai/tokenize.h"

namespace kvist::openai::tool_request_test {
namespace {

std::string chat_with(std::string_view fields, std::string_view messages = R"([{"role":"user","content":"hi"}])") {
  return fmt::format(R"({{"model":"m","messages":{}{}{}}})", messages, fields.empty() ? "" : ",", fields);
}

std::string error_of(const std::string& body, ReadFor purpose = ReadFor::kAnswer) {
  const Result<ChatRequest> request = parse_chat_request(body, purpose);
  return request ? "accepted" : fmt::format("{}: {}", to_string(request.error().code), request.error().message);
}

constexpr std::string_view kTools = R"("tools":[{"type":"function","function":{"name":"f","parameters":{"x": 1.50}}}])";

TEST(ToolRequest, WritesToolsAsVllmDoes) {
  const Result<ChatRequest> request = parse_chat_request(chat_with(kTools));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->tools,
            R"([{"type":"function","function":{"name":"f","description":null,"parameters":{"x":1.5}}}])");
  EXPECT_TRUE(request->may_call_tools);
  EXPECT_TRUE(request->several_calls);
  const Result<ChatRequest> none = parse_chat_request(chat_with(
      fmt::format(R"({},"tool_choice":"none","parallel_tool_calls":false,"chat_template_kwargs":{{"a":[]}})", kTools)));
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_EQ(none->tools, request->tools) << "they stay in the prompt";
  EXPECT_FALSE(none->may_call_tools);
  EXPECT_FALSE(none->several_calls);
  EXPECT_EQ(none->template_arguments, R"({"a":[]})");
  const Result<ChatRequest> without =
      parse_chat_request(chat_with(R"("tools":[],"tool_choice":"auto","chat_template_kwargs":{})"));
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_EQ(without->tools + without->template_arguments, "");
  EXPECT_FALSE(without->may_call_tools);
}

TEST(ToolRequest, OrdersWhatVllmKnowsOfAToolAndLeavesOutTheRest) {
  const auto written = [](std::string_view tools) {
    const Result<ChatRequest> request =
        parse_chat_request(chat_with(fmt::format(R"("tools":{})", tools)), ReadFor::kRouting);
    return request ? request->tools : request.error().message;
  };
  EXPECT_EQ(written(R"([{"function":{"strict":true,"parameters":{"b":1,"a":[null]},"extra":1,"name":"f\n",
                         "description":"d"},"type":"function","cache_control":{}}])"),
            R"([{"type":"function","function":{"name":"f\n","description":"d","parameters":{"b":1,"a":[null]},)"
            R"("strict":true}}])");
  EXPECT_EQ(written(R"([{"type":"function"}, 7])"), R"([{"type":"function"},7])") << "not routing's to judge";
  EXPECT_EQ(written(R"({"a": 1})"), R"({"a":1})");
}

TEST(ToolRequest, RefusesAChoiceThatNeedsConstrainedOutput) {
  EXPECT_EQ(
      error_of(chat_with(R"("tool_choice":"required")")),
      "invalid_argument: tool_choice: \"required\" needs constrained output, which this server does not have; give "
      "\"auto\" or \"none\"");
  EXPECT_EQ(
      error_of(chat_with(R"("tool_choice":{"type":"function","function":{"name":"f"}})")),
      "invalid_argument: tool_choice: a named tool needs constrained output, which this server does not have; give "
      "\"auto\" or \"none\"");
  EXPECT_EQ(error_of(chat_with(R"("tool_choice":"any")")),
            "invalid_argument: tool_choice: expected \"auto\" or \"none\", got a string");
  EXPECT_EQ(error_of(chat_with(R"("tool_choice":{"type":"function"})"), ReadFor::kRouting), "accepted");
}

TEST(ToolRequest, NamesWhatIsWrongWithTools) {
  const auto error = [](std::string_view tools) { return error_of(chat_with(fmt::format(R"("tools":{})", tools))); };
  EXPECT_EQ(error("{}"), "invalid_argument: tools: expected an array of tools, got an object");
  EXPECT_EQ(error("[1]"), "invalid_argument: tools[0]: expected an object, got 1");
  EXPECT_EQ(error("[{}]"), "invalid_argument: tools[0].function: required, but missing");
  EXPECT_EQ(error(R"([{"type":"web_search"}])"),
            "unsupported: tools[0].type: \"web_search\" is not supported by this server, only \"function\"");
  EXPECT_EQ(error(R"([{"function":{}}])"), "invalid_argument: tools[0].function.name: required, but missing");
  EXPECT_EQ(error(R"([{"function":{"name":""}}])"), "invalid_argument: tools[0].function.name: is empty");
  std::string many = "[";
  for (std::size_t i = 0; i <= kMaxTools; ++i) many += "{},";
  many.back() = ']';
  EXPECT_EQ(error(many), "invalid_argument: tools: 129 of them, at most 128 are allowed");
  EXPECT_EQ(error_of(chat_with(R"("chat_template_kwargs":[])")),
            "invalid_argument: chat_template_kwargs: expected an object, got an array");
}

TEST(ToolRequest, ReadsCallsAndTheirAnswers) {
  const Result<ChatRequest> request = parse_chat_request(chat_with("", R"([
      {"role":"assistant","content":null,"tool_calls":[
        {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}, {"function":{"name":"g","arguments":""}}]},
      {"role":"tool","tool_call_id":"c1","name":"f","content":"12"}])"));
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->messages.size(), 2U);
  ASSERT_EQ(request->messages[0].tool_calls.size(), 2U);
  EXPECT_EQ(request->messages[0].tool_calls[0].id, "c1");
  EXPECT_EQ(request->messages[0].tool_calls[0].name, "f");
  EXPECT_EQ(request->messages[0].tool_calls[0].arguments, R"({"a":1})");
  EXPECT_EQ(request->messages[0].tool_calls[1].id, "");
  EXPECT_EQ(request->messages[1].tool_call_id, "c1");
  EXPECT_EQ(request->messages[1].name, "f");
}

TEST(ToolRequest, NamesWhatIsWrongWithCalls) {
  const auto error = [](std::string_view fields, std::string_view role = "assistant") {
    return error_of(chat_with("", fmt::format(R"([{{"role":"{}","content":"",{}}}])", role, fields)));
  };
  EXPECT_EQ(error(R"("tool_calls":{})"),
            "invalid_argument: messages[0].tool_calls: expected an array of calls, got an object");
  EXPECT_EQ(error(R"("tool_calls":[{"id":"c"}])"),
            "invalid_argument: messages[0].tool_calls[0].function: required, but missing");
  EXPECT_EQ(error(R"("tool_calls":[{"function":{"name":"f"}}])"),
            "invalid_argument: messages[0].tool_calls[0].function.arguments: required, but missing");
  EXPECT_EQ(error(R"("tool_calls":[{"function":{"name":"f","arguments":{}}}])"),
            "invalid_argument: messages[0].tool_calls[0].function.arguments: expected a string, got an object");
  EXPECT_EQ(error(R"("tool_calls":[{"function":{"name":"f","arguments":""}}])", "user"),
            "invalid_argument: messages[0].tool_calls: only the assistant calls tools");
  EXPECT_EQ(error(R"("tool_call_id":7)", "tool"),
            "invalid_argument: messages[0].tool_call_id: expected a string, got 7");
}

TEST(PromptEnd, IsAHeaderOrTheLastMessage) {
  const auto ends = [](std::string_view fields, ReadFor purpose = ReadFor::kAnswer) {
    const Result<ChatRequest> request = parse_chat_request(chat_with(fields), purpose);
    if (!request) return request.error().message;
    return std::string(request->add_generation_prompt ? "header" : "no header") +
           (request->continue_final_message ? ", open" : "");
  };
  for (const ReadFor purpose : {ReadFor::kAnswer, ReadFor::kRouting}) {
    EXPECT_EQ(ends("", purpose), "header");
    EXPECT_EQ(ends(R"("add_generation_prompt":false)", purpose), "no header");
    EXPECT_EQ(ends(R"("continue_final_message":true)", purpose), "no header, open");
    EXPECT_EQ(ends(R"("continue_final_message":true,"add_generation_prompt":false)", purpose), "no header, open");
    EXPECT_EQ(
        ends(R"("continue_final_message":true,"add_generation_prompt":true)", purpose),
        "continue_final_message: cannot be true together with add_generation_prompt: the answer either goes on with "
        "the last message or begins one of its own");
  }
  EXPECT_EQ(ends(R"("continue_final_message":"yes")"), "continue_final_message: expected true or false, got a string");
  EXPECT_EQ(ends(R"("continue_final_message":"yes")", ReadFor::kRouting), "header") << "the worker's to judge";
}

TEST(PromptEnd, CountsForTokenizeToo) {
  const Result<TokenizeRequest> request = parse_tokenize_request(
      R"({"messages":[{"role":"user","content":"x"}],"continue_final_message":true,"chat_template_kwargs":{"a":1}})");
  ASSERT_TRUE(request) << request.error().message;
  const auto& chat = std::get<ChatPrompt>(request->input);
  EXPECT_TRUE(chat.continue_final_message);
  EXPECT_EQ(chat.template_arguments, R"({"a":1})");
}

}  // namespace
}  // namespace kvist::openai::tool_request_test
