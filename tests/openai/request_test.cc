#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/openai/tokenize.h"

namespace kvist::openai::request_test {
namespace {

std::string chat_with(std::string_view fields) {
  return fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"hi"}}]{}{}}})", fields.empty() ? "" : ",",
                     fields);
}

std::string completion_with(std::string_view prompt) {
  return fmt::format(R"({{"model":"m","prompt":{}}})", prompt);
}

// The error of a body that must be refused, as "code: message".
std::string chat_error(std::string_view body) {
  const Result<ChatRequest> request = parse_chat_request(body);
  if (request) return "accepted";
  return fmt::format("{}: {}", to_string(request.error().code), request.error().message);
}

std::string completion_error(std::string_view body) {
  const Result<CompletionRequest> request = parse_completion_request(body);
  if (request) return "accepted";
  return fmt::format("{}: {}", to_string(request.error().code), request.error().message);
}

TEST(ChatRequest, HasTheDefaultsOfTheApi) {
  const Result<ChatRequest> request = parse_chat_request(chat_with(""));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->options.model, "m");
  EXPECT_FALSE(request->options.stream);
  EXPECT_FALSE(request->options.include_usage);
  EXPECT_FALSE(request->options.max_tokens);
  EXPECT_FALSE(request->options.seed);
  EXPECT_FALSE(request->options.ignore_eos);
  EXPECT_EQ(request->options.cache_salt, "");
  ASSERT_EQ(request->messages.size(), 1U);
  EXPECT_EQ(request->messages[0].role, "user");
  EXPECT_EQ(request->messages[0].content, "hi");
}

TEST(ChatRequest, ReadsPriorityAndWhatSpecialTokensBecome) {
  const Result<ChatRequest> plain = parse_chat_request(chat_with(""));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->options.priority, 0);
  EXPECT_TRUE(plain->options.skip_special_tokens);
  const Result<ChatRequest> given = parse_chat_request(chat_with(R"("priority":-3,"skip_special_tokens":false)"));
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(given->options.priority, -3);
  EXPECT_FALSE(given->options.skip_special_tokens);
  EXPECT_TRUE(chat_error(chat_with(R"("priority":"high")")).contains("priority: expected"));
  EXPECT_TRUE(chat_error(chat_with(R"("priority":3000000000)")).contains("priority: "));
}

TEST(ChatRequest, ForRoutingReadsTheSession) {
  const auto session = [](const std::string& fields) {
    const Result<ChatRequest> request = parse_chat_request(chat_with(fields), ReadFor::kRouting);
    return request ? request->options.session : request.error().message;
  };
  EXPECT_EQ(session(R"("user":"u")"), "u");
  EXPECT_EQ(session(R"("user":"u","prompt_cache_key":"k")"), "k");
  EXPECT_EQ(session(R"("user":"u","prompt_cache_key":"")"), "u");
  for (const char* other : {R"("user":7)", R"("user":null)", R"("user":"a","user":"b")", R"("stream":true)"}) {
    EXPECT_EQ(session(other), "") << other;
  }
  EXPECT_EQ(parse_chat_request(chat_with(R"("user":"u")"))->options.session, "");
}

TEST(ChatRequest, ReadsEveryHonouredField) {
  const Result<ChatRequest> request = parse_chat_request(
      chat_with(R"("stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"seed":-1,"ignore_eos":true,)"
                R"("cache_salt":"tenant","temperature":0.5,"top_p":1,"top_k":-1,"user":"u","unheard_of":[{}])"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->options.stream);
  EXPECT_TRUE(request->options.include_usage);
  EXPECT_EQ(request->options.max_tokens, 7U);
  EXPECT_EQ(request->options.seed, ~std::uint64_t{0});
  EXPECT_TRUE(request->options.ignore_eos);
  EXPECT_EQ(request->options.cache_salt, "tenant");
}

TEST(ChatRequest, MaxCompletionTokensWins) {
  for (const char* fields : {R"("max_tokens":7,"max_completion_tokens":9)", R"("max_completion_tokens":9)"}) {
    const Result<ChatRequest> request = parse_chat_request(chat_with(fields));
    ASSERT_TRUE(request);
    EXPECT_EQ(request->options.max_tokens, 9U);
  }
}

TEST(ChatRequest, SeedsUseAll64Bits) {
  const Result<ChatRequest> request = parse_chat_request(chat_with(R"("seed":18446744073709551615)"));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->options.seed, ~std::uint64_t{0});
}

TEST(ChatRequest, NullMeansAbsent) {
  const Result<ChatRequest> request = parse_chat_request(
      chat_with(R"("stream":null,"stream_options":null,"max_tokens":null,"seed":null,"ignore_eos":null,"n":null,)"
                R"("cache_salt":null,"stop":null,"tools":null,"temperature":null,"logprobs":null)"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_FALSE(request->options.max_tokens);
}

TEST(ChatRequest, JoinsTextPartsAndDecodesEscapes) {
  const Result<ChatRequest> request = parse_chat_request(
      R"({"messages":[{"role":"system","content":"s"},{"role":"assistant","content":null},)"
      R"({"role":"assistant"},{"role":"user","content":[{"type":"text","text":"a\u00e9\n"},{"text":"b","type":"text"}]},)"
      R"({"role":"user","content":[]}],"model":"m"})");
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->messages.size(), 5U);
  EXPECT_EQ(request->messages[1].content, "");
  EXPECT_EQ(request->messages[2].content, "");
  EXPECT_EQ(request->messages[3].content, "a\xC3\xA9\n\nb") << "as vLLM joins them";
  EXPECT_EQ(request->messages[3].content_parts, (std::vector<std::string>{"a\xC3\xA9\n", "b"}));
  EXPECT_EQ(request->messages[4].content, "");
  const Result<ChatRequest> gaps = parse_chat_request(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"b"}]}]})");
  ASSERT_TRUE(gaps) << gaps.error().message;
  EXPECT_EQ(gaps->messages[0].content, "b") << "an empty part is no line";
}

TEST(ChatRequest, NamesWhatIsWrongWithMessages) {
  const auto error = [](std::string_view messages) {
    return chat_error(fmt::format(R"({{"model":"m","messages":{}}})", messages));
  };
  EXPECT_EQ(error("7"), "invalid_argument: messages: expected an array of messages, got 7");
  EXPECT_EQ(error("[]"), "invalid_argument: messages: expected at least one message, got none");
  EXPECT_EQ(error("[[]]"), "invalid_argument: messages[0]: expected an object, got an array");
  EXPECT_EQ(error("null"), "invalid_argument: messages: required, but missing");
  EXPECT_EQ(error(R"([{"content":"x"}])"), "invalid_argument: messages[0].role: required, but missing");
  EXPECT_EQ(error(R"([{"role":3,"content":"x"}])"), "invalid_argument: messages[0].role: expected a string, got 3");
  EXPECT_EQ(error(R"([{"role":"boss","content":"x"}])"),
            "invalid_argument: messages[0].role: expected one of system, developer, user, assistant, tool, function, "
            "got \"boss\"");
  EXPECT_EQ(error(R"([{"role":"user","content":"x"},{"role":"user"}])"),
            "invalid_argument: messages[1].content: required for role \"user\", but missing or null");
  EXPECT_EQ(error(R"([{"role":"user","content":5}])"),
            "invalid_argument: messages[0].content: expected a string or an array of parts, got 5");
  EXPECT_EQ(error(R"([{"role":"user","content":["x"]}])"),
            "invalid_argument: messages[0].content[0]: expected an object, got a string");
  EXPECT_EQ(error(R"([{"role":"user","content":[{"type":"text"}]}])"),
            "invalid_argument: messages[0].content[0].text: required, but missing");
  EXPECT_EQ(error(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]}])"),
            "unsupported: messages[0].content[1].type: parts of type \"image_url\" are not supported by this server, "
            "only \"text\"");
  EXPECT_EQ(error(R"([{"role":"assistant","content":null,"function_call":{"name":"c"}}])"),
            "unsupported: messages[0].function_call: not supported by this server; give tool_calls in its place");
  EXPECT_EQ(error(R"([{"role":"user","content":"a","content":"b"}])"),
            "invalid_argument: messages[0].content: given more than once");
}

TEST(ChatRequest, TakesThePartsThatAreTextElsewhereToo) {
  const Result<ChatRequest> request = parse_chat_request(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"role":"assistant",
          "content":[{"type":"output_text","text":"b"},{"type":"refusal","refusal":"c"}]},{"role":"user","content":"d"}]})");
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->messages[0].content, "a");
  EXPECT_EQ(request->messages[1].content, "b\nc");
}

TEST(ChatRequest, NamesEveryBadField) {
  const auto error = [](std::string_view fields) { return chat_error(chat_with(fields)); };
  const std::string prefix = "invalid_argument: ";
  EXPECT_EQ(error(R"("stream":"yes")"), prefix + "stream: expected true or false, got a string");
  EXPECT_EQ(error(R"("stream_options":3)"), prefix + "stream_options: expected an object, got 3");
  EXPECT_EQ(error(R"("stream_options":{"include_usage":1})"),
            prefix + "stream_options.include_usage: expected true or false, got 1");
  EXPECT_EQ(error(R"("max_tokens":0)"), prefix + "max_tokens: expected an integer from 1 to 2147483647, got 0");
  EXPECT_EQ(error(R"("max_tokens":1.5)"), prefix + "max_tokens: expected an integer from 1 to 2147483647, got 1.5");
  EXPECT_EQ(error(R"("max_completion_tokens":"9")"),
            prefix + "max_completion_tokens: expected an integer from 1 to 2147483647, got a string");
  EXPECT_EQ(error(R"("seed":1.5)"), prefix + "seed: expected a 64-bit integer, got 1.5");
  EXPECT_EQ(error(R"("seed":"1")"), prefix + "seed: expected a 64-bit integer, got a string");
  EXPECT_EQ(error(R"("ignore_eos":0)"), prefix + "ignore_eos: expected true or false, got 0");
  EXPECT_EQ(error(R"("cache_salt":{})"), prefix + "cache_salt: expected a string, got an object");
  EXPECT_EQ(error(fmt::format(R"("cache_salt":"{}")", std::string(1025, 'x'))),
            prefix + "cache_salt: 1025 bytes, at most 1024 are allowed");
  EXPECT_EQ(error(R"("temperature":2.5)"), prefix + "temperature: expected a number from 0 to 2, got 2.5");
  EXPECT_EQ(error(R"("temperature":[])"), prefix + "temperature: expected a number from 0 to 2, got an array");
  EXPECT_EQ(error(R"("top_p":-0.1)"), prefix + "top_p: expected a number from 0 to 1, got -0.1");
  EXPECT_EQ(error(R"("min_p":2)"), prefix + "min_p: expected a number from 0 to 1, got 2");
  EXPECT_EQ(error(R"("top_k":-2)"), prefix + "top_k: expected an integer from -1 to 2147483647, got -2");
  EXPECT_EQ(error(R"("frequency_penalty":3)"), prefix + "frequency_penalty: expected a number from -2 to 2, got 3");
  EXPECT_EQ(error(R"("presence_penalty":-3)"), prefix + "presence_penalty: expected a number from -2 to 2, got -3");
  EXPECT_EQ(error(R"("repetition_penalty":0)"),
            prefix + "repetition_penalty: expected a number from 0.01 to 100, got 0");
  EXPECT_EQ(error(R"("kvist_resume":null)"), prefix + "kvist_resume: expected an object, got null; leave it out");
  EXPECT_EQ(error(R"("n":0)"), prefix + "n: expected an integer from 1 to 128, got 0");
  EXPECT_EQ(error(R"("stop":7)"), prefix + "stop: expected a string, got 7");
  EXPECT_EQ(error(R"("stop":["a",null])"), prefix + "stop[1]: expected a string, got null");
  EXPECT_EQ(error(fmt::format(R"("stop":"{}")", std::string(1025, 'x'))),
            prefix + "stop: 1025 bytes, at most 1024 are allowed");
  EXPECT_EQ(error(R"("stop":["","","","","","","","","","","","","","","","",""])"),
            prefix + "stop: 17 strings, at most 16 are allowed");
  EXPECT_EQ(error(R"("stop_token_ids":[1,-1])"), prefix + "stop_token_ids[1]: expected a token id, got -1");
  EXPECT_EQ(error(R"("logit_bias":[])"),
            prefix + "logit_bias: expected an object of token ids and numbers, got an array");
  EXPECT_EQ(error(R"("logit_bias":{"x":1})"), prefix + "logit_bias.x: expected a token id as the name");
  EXPECT_EQ(error(R"("logit_bias":{"5":101})"), prefix + "logit_bias.5: expected a number from -100 to 100, got 101");
  EXPECT_EQ(error(R"("min_tokens":-1)"), prefix + "min_tokens: expected an integer from 0 to 2147483647, got -1");
  EXPECT_EQ(error(R"("logprobs":3)"), prefix + "logprobs: expected true or false, got 3");
  EXPECT_EQ(error(R"("logprobs":true,"top_logprobs":21)"),
            prefix + "top_logprobs: expected an integer from 0 to 20, got 21");
  EXPECT_EQ(error(R"("top_logprobs":2)"), prefix + "top_logprobs: needs \"logprobs\": true beside it");
  EXPECT_EQ(error(R"("model":"again")"), prefix + "model: given more than once");
}

TEST(ChatRequest, RefusesByNameWhatWouldChangeTheOutput) {
  const auto refuses = [](std::string_view name, std::string_view value) {
    const std::string error = chat_error(chat_with(fmt::format(R"("{}":{})", name, value)));
    EXPECT_TRUE(error.starts_with(fmt::format("unsupported: {}: ", name))) << name << ": " << error;
  };
  refuses("best_of", "3");
  refuses("use_beam_search", "true");
  refuses("response_format", R"({"type":"json_object"})");
  refuses("structured_outputs", "{}");
  refuses("guided_json", "{}");
  refuses("bad_words", R"(["x"])");
  refuses("echo", "true");
  refuses("functions", "[{}]");
  refuses("modalities", R"(["text","audio"])");
  refuses("audio", "{}");
  refuses("chat_template", R"("{{x}}")");
  EXPECT_EQ(chat_error(chat_with(R"("functions":[{}])")),
            "unsupported: functions: not supported by this server with this value; leave it out or empty");
}

TEST(CompletionRequest, HasSixteenTokensUnlessItSaysHowMany) {
  const auto limit = [](std::string_view fields) {
    return parse_completion_request(fmt::format(R"({{"model":"m","prompt":"a"{}}})", fields))->options.max_tokens;
  };
  EXPECT_EQ(limit(""), 16U) << "as in OpenAI's API and vLLM";
  EXPECT_EQ(limit(R"(,"max_tokens":null)"), 16U);
  EXPECT_EQ(limit(R"(,"max_tokens":7)"), 7U);
  EXPECT_EQ(limit(R"(,"max_completion_tokens":40)"), 40U);
  EXPECT_EQ(limit(R"(,"echo":true)"), 16U);
}

TEST(CompletionRequest, ReadsWhatAHarnessScoresTextsWith) {
  const auto read = [](std::string_view fields) {
    const auto request = parse_completion_request(fmt::format(R"({{"model":"m","prompt":"a",{}}})", fields));
    EXPECT_TRUE(request) << request.error().message;
    return request ? request->options : GenerationOptions{};
  };
  const GenerationOptions scored = read(R"("echo":true,"logprobs":1,"max_tokens":0)");
  EXPECT_TRUE(scored.echo);
  EXPECT_EQ(scored.max_tokens, 0U);
  EXPECT_EQ(wanted_prompt_logprobs(scored), 1U) << "as many as of the answer";
  EXPECT_EQ(wanted_prompt_logprobs(read(R"("echo":true,"logprobs":1,"prompt_logprobs":3)")), 3U);
  EXPECT_EQ(wanted_prompt_logprobs(read(R"("echo":true)")), std::nullopt);
  EXPECT_EQ(wanted_prompt_logprobs(read(R"("logprobs":2)")), std::nullopt);
  EXPECT_EQ(wanted_prompt_logprobs(read(R"("prompt_logprobs":0)")), 0U);
  EXPECT_EQ(read(R"("n":3)").best_of, 3U);
  EXPECT_EQ(read(R"("n":3,"best_of":5)").best_of, 5U);
  EXPECT_EQ(read(R"("n":3,"best_of":3,"stream":true)").best_of, 3U) << "there is nothing to choose from";
}

TEST(CompletionRequest, SaysWhatIsWrongWithThem) {
  const auto error = [](std::string_view fields) {
    const auto request = parse_completion_request(fmt::format(R"({{"model":"m","prompt":"a",{}}})", fields));
    return request ? std::string("accepted") : request.error().message;
  };
  EXPECT_EQ(error(R"("max_tokens":0)"), "max_tokens: expected an integer from 1 to 2147483647, got 0");
  EXPECT_EQ(error(R"("echo":1)"), "echo: expected true or false, got 1");
  EXPECT_EQ(error(R"("n":2,"best_of":1)"), "best_of: expected at least n, which is 2, got 1");
  EXPECT_EQ(error(R"("best_of":2,"stream":true)"),
            "best_of: the best answers are known when all have ended, so they cannot be streamed");
  EXPECT_EQ(error(R"("prompt_logprobs":0,"stream":true)"),
            R"(prompt_logprobs: only a whole answer has them; "stream" is true)");
}

TEST(CompletionRequest, RoutingKnowsHowManyAnswersAreGenerated) {
  const auto best_of = [](std::string_view fields) {
    return parse_completion_request(fmt::format(R"({{"prompt":"a"{}}})", fields), ReadFor::kRouting)->options.best_of;
  };
  EXPECT_EQ(best_of(""), 1U);
  EXPECT_EQ(best_of(R"(,"n":4)"), 4U);
  EXPECT_EQ(best_of(R"(,"n":4,"best_of":9)"), 9U);
  EXPECT_EQ(best_of(R"(,"n":"x","best_of":-9)"), 1U) << "the worker says what is wrong";
}

TEST(CompletionRequest, RoutingKnowsThePriority) {
  const auto priority = [](std::string_view value) {
    return parse_completion_request(fmt::format(R"({{"prompt":"a","priority":{}}})", value), ReadFor::kRouting)
        ->options.priority;
  };
  EXPECT_EQ(priority("-3"), -3);
  EXPECT_EQ(priority("null"), 0);
  EXPECT_EQ(priority("4294967296"), 0) << "the worker says what is wrong";
  EXPECT_EQ(priority(R"("high")"), 0);
}

TEST(ChatRequest, ReadsStreamOptionsAndIgnoresUnknownMembers) {
  const auto options = [](std::string_view text) {
    const auto request = parse_chat_request(chat_with(fmt::format(R"("stream_options":{})", text)));
    EXPECT_TRUE(request) << text;
    return request ? std::pair(request->options.include_usage, request->options.continuous_usage)
                   : std::pair(false, false);
  };
  EXPECT_EQ(options(R"({"include_usage":true,"continuous_usage_stats":true,"include_obfuscation":{"x":1}})"),
            std::pair(true, true));
  EXPECT_EQ(options(R"({"continuous_usage_stats":true})"), std::pair(false, true));
  EXPECT_EQ(options("{}"), std::pair(false, false));
  EXPECT_EQ(chat_error(chat_with(R"("stream_options":{"continuous_usage_stats":3})")),
            "invalid_argument: stream_options.continuous_usage_stats: expected true or false, got 3");
}

TEST(ChatRequest, AcceptsNeutralValuesOfThoseFields) {
  EXPECT_EQ(chat_error(chat_with(
                R"("n":1,"best_of":1,"stop":[],"stop_token_ids":[],"min_tokens":0,"logit_bias":{},)"
                R"("use_beam_search":false,"response_format":{"type":"text"},"echo":false,"logprobs":false,)"
                R"("top_logprobs":0,"tools":[],"tool_choice":"none","function_call":"auto","modalities":["text"],)"
                R"("add_generation_prompt":true,"continue_final_message":false,"chat_template_kwargs":{})")),
            "accepted");
  EXPECT_EQ(chat_error(chat_with(R"("stop":"")")), "accepted");
}

TEST(ChatRequest, RefusesTextThatIsNoObject) {
  EXPECT_TRUE(chat_error("").starts_with("invalid_argument: body: not valid JSON: "));
  EXPECT_TRUE(chat_error(R"({"model":"m")").starts_with("invalid_argument: body: not valid JSON: "));
  EXPECT_TRUE(chat_error("{\"model\":\"\xFF\"}").starts_with("invalid_argument: body: not valid JSON: "));
  EXPECT_EQ(chat_error("[1]"), "invalid_argument: body: expected an object, got an array");
  EXPECT_EQ(chat_error("{}"), "invalid_argument: model: required, but missing");
}

TEST(ChatRequest, BoundsDepthAndFields) {
  const auto nested = [](int depth) {
    return chat_with(R"("x":)" + std::string(static_cast<std::size_t>(depth), '[') +
                     std::string(static_cast<std::size_t>(depth), ']'));
  };
  EXPECT_EQ(chat_error(nested(40)), "accepted");
  EXPECT_TRUE(chat_error(nested(70)).starts_with("invalid_argument: body: nested more than 64 deep"));
  EXPECT_TRUE(chat_error(nested(5'000)).starts_with("invalid_argument: body: nested more than 64 deep"));
  std::string fields = R"("f":0)";
  for (int i = 0; i < 300; ++i) fields += fmt::format(R"(,"f{}":0)", i);
  EXPECT_EQ(chat_error(chat_with(fields)), "invalid_argument: body: more than 256 fields");
}

TEST(ChatRequest, ReadsLargeBodiesAndSmallOnesAfterThem) {
  const std::string content(3UL << 20, 'x');
  const Result<ChatRequest> request =
      parse_chat_request(fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"{}"}}]}})", content));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->messages[0].content, content);
  EXPECT_EQ(chat_error(chat_with("")), "accepted");
}

TEST(CompletionRequest, ReadsTheFourFormsOfPrompt) {
  const auto prompts = [](std::string_view prompt) {
    Result<CompletionRequest> request = parse_completion_request(completion_with(prompt));
    EXPECT_TRUE(request) << request.error().message;
    return request ? request->prompts : std::vector<Prompt>();
  };
  using Tokens = std::vector<TokenId>;
  EXPECT_EQ(prompts(R"("a")"), (std::vector<Prompt>{std::string("a")}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<Prompt>{std::string("a"), std::string("b")}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<Prompt>{Tokens{TokenId(1), TokenId(2)}}));
  EXPECT_EQ(prompts("[[1],[2,3]]"), (std::vector<Prompt>{Tokens{TokenId(1)}, Tokens{TokenId(2), TokenId(3)}}));
}

TEST(CompletionRequest, NamesWhatIsWrongWithPrompts) {
  const auto error = [](std::string_view prompt) { return completion_error(completion_with(prompt)); };
  EXPECT_EQ(error("null"), "invalid_argument: prompt: required, but missing");
  EXPECT_EQ(error("[]"), "invalid_argument: prompt: expected at least one prompt or token, got an empty array");
  EXPECT_EQ(error("5"),
            "invalid_argument: prompt: expected a string, an array of strings, token ids, or an array of those, got 5");
  EXPECT_EQ(error("[1,\"a\"]"), "invalid_argument: prompt[1]: expected a token id, got a string");
  EXPECT_EQ(error("[1,-1]"), "invalid_argument: prompt[1]: expected a token id, got -1");
  EXPECT_EQ(error("[4294967296]"), "invalid_argument: prompt[0]: expected a token id, got 4294967296");
  EXPECT_EQ(error("[\"a\",1]"), "invalid_argument: prompt[1]: expected a string or an array of token ids, got 1");
  EXPECT_EQ(error("[[1],[true]]"), "invalid_argument: prompt[1][0]: expected a token id, got a boolean");
  std::string many = "[\"a\"";
  for (std::size_t i = 0; i < kMaxPrompts; ++i) many += ",\"a\"";
  EXPECT_EQ(error(many + "]"), "invalid_argument: prompt: more than 256 prompts in one request");
}

TEST(ChatRequest, ReadsHowTokensAreChosen) {
  const Result<ChatRequest> request = parse_chat_request(chat_with(
      R"("n":3,"stop":["\n","END",""],"include_stop_str_in_output":true,"temperature":0.5,"top_p":0.9,"min_p":0.1,)"
      R"("top_k":40,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,"logit_bias":{"7":-100},)"
      R"("stop_token_ids":[9],"min_tokens":4,"logprobs":true,"top_logprobs":2)"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->options.choices, 3U);
  EXPECT_EQ(request->options.stop, (std::vector<std::string>{"\n", "END"}));
  EXPECT_TRUE(request->options.include_stop_str_in_output);
  EXPECT_EQ(request->options.sampling, (Sampling{.temperature = 0.5,
                                                 .top_p = 0.9,
                                                 .min_p = 0.1,
                                                 .top_k = 40,
                                                 .presence_penalty = 1,
                                                 .frequency_penalty = -1,
                                                 .repetition_penalty = 1.5,
                                                 .logit_bias = {{TokenId(7), -100}},
                                                 .stop_token_ids = {TokenId(9)},
                                                 .min_tokens = 4,
                                                 .logprobs = 2}));
}

TEST(CompletionRequest, AsksForLogprobsByTheirNumber) {
  const auto request = parse_completion_request(R"({"model":"m","prompt":"a","logprobs":0})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->options.sampling.logprobs, 0U);
}

TEST(CompletionRequest, RefusesByName) {
  EXPECT_TRUE(completion_error(R"({"model":"m","prompt":"a","suffix":"b"})").starts_with("unsupported: suffix: "));
  EXPECT_TRUE(
      completion_error(R"({"model":"m","prompt":"a","bad_words":["x"]})").starts_with("unsupported: bad_words: "));
}

TEST(TokenizeRequest, TakesPromptOrMessages) {
  const Result<TokenizeRequest> prompt = parse_tokenize_request(R"({"prompt":"ab"})");
  ASSERT_TRUE(prompt);
  EXPECT_EQ(std::get<std::string>(prompt->input), "ab");
  const Result<TokenizeRequest> chat =
      parse_tokenize_request(R"({"model":"m","messages":[{"role":"user","content":"x"}]})");
  ASSERT_TRUE(chat);
  EXPECT_EQ(std::get<ChatPrompt>(chat->input).messages.at(0).content, "x");
  EXPECT_FALSE(parse_tokenize_request("{}"));
  EXPECT_FALSE(parse_tokenize_request(R"({"prompt":"a","messages":[]})"));
  EXPECT_FALSE(parse_tokenize_request(R"({"prompt":["a"]})"));
}

TEST(RoutingRequest, LeavesToTheWorkerWhatAChoiceDoesNotNeed) {
  const std::string_view body = R"({"model":"m","stream":true,"n":2,"stop":["x"],"logprobs":true,"temperature":9,
    "tools":[{"type":"function"}],"stream_options":{"include_usage":true,"continuous_usage_stats":true},
    "cache_salt":"s","messages":[
      {"role":"wizard","content":[{"type":"text","text":"look "},{"type":"image_url","image_url":{"url":"u"}},
                                  {"type":"text","text":"here"}]},
      {"role":"assistant","tool_calls":[{"id":"1"}]},{"role":"tool","content":null}]})";
  EXPECT_FALSE(parse_chat_request(body));
  const Result<ChatRequest> request = parse_chat_request(body, ReadFor::kRouting);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_TRUE(request->options.stream && request->options.include_usage);
  EXPECT_EQ(request->options.cache_salt, "s");
  ASSERT_EQ(request->messages.size(), 3U);
  EXPECT_EQ(request->messages[0].role, "wizard");
  EXPECT_EQ(request->messages[0].content, "look \nhere");
  EXPECT_EQ(request->messages[1].content, "");
}

TEST(RoutingRequest, StillNeedsAPrompt) {
  EXPECT_FALSE(parse_chat_request(R"({"model":"m"})", ReadFor::kRouting));
  const Result<ChatRequest> nameless =
      parse_chat_request(R"({"messages":[{"role":"user","content":"x"}]})", ReadFor::kRouting);
  ASSERT_TRUE(nameless) << "a server of one model may do without its name";
  EXPECT_EQ(nameless->options.model, "");
  EXPECT_FALSE(parse_chat_request(R"({"messages":[{"role":"user","content":"x"}]})"));
  EXPECT_FALSE(parse_chat_request(R"({"model":"m","messages":[7]})", ReadFor::kRouting));
  EXPECT_FALSE(parse_completion_request(R"({"model":"m","prompt":{}})", ReadFor::kRouting));
  EXPECT_TRUE(parse_completion_request(R"({"model":"m","prompt":"a","echo":true,"suffix":"b"})", ReadFor::kRouting));
}

TEST(DetokenizeRequest, TakesTokens) {
  const Result<DetokenizeRequest> request = parse_detokenize_request(R"({"tokens":[104,105]})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->tokens, (std::vector<TokenId>{TokenId(104), TokenId(105)}));
  EXPECT_FALSE(parse_detokenize_request(R"({"tokens":"hi"})"));
  EXPECT_FALSE(parse_detokenize_request("{}"));
}

TEST(ErrorBody, CarriesTypeParamAndCode) {
  EXPECT_EQ(error_body({ErrorCode::kInvalidArgument, "messages[2].content: expected \"x\""}),
            R"({"error":{"message":"messages[2].content: expected \"x\"","type":"BadRequestError",)"
            R"("param":"messages[2].content","code":400}})");
  EXPECT_EQ(error_body({ErrorCode::kResourceExhausted, "queue: full"}),
            R"({"error":{"message":"queue: full","type":"RateLimitError","param":null,"code":429}})");
  EXPECT_EQ(error_body({ErrorCode::kInvalidArgument, "body: not valid JSON: x"}),
            R"({"error":{"message":"body: not valid JSON: x","type":"BadRequestError","param":null,"code":400}})");
}

TEST(HttpStatus, IsTheDocumentedOnePerCode) {
  EXPECT_EQ(http_status(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(http_status(ErrorCode::kUnauthenticated), 401);
  EXPECT_EQ(http_status(ErrorCode::kNotFound), 404);
  EXPECT_EQ(http_status(ErrorCode::kTooLarge), 413);
  EXPECT_EQ(http_status(ErrorCode::kUnsupported), 422);
  EXPECT_EQ(http_status(ErrorCode::kResourceExhausted), 429);
  EXPECT_EQ(http_status(ErrorCode::kUnavailable), 503);
  EXPECT_EQ(http_status(ErrorCode::kDeadlineExceeded), 504);
  EXPECT_EQ(http_status(ErrorCode::kCancelled), 499);
  EXPECT_EQ(http_status(ErrorCode::kCorrupt), 502);
  EXPECT_EQ(http_status(ErrorCode::kInternal), 500);
}

}  // namespace
}  // namespace kvist::openai::request_test
