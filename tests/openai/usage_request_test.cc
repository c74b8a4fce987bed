#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/random.h"
#include "kvist/openai/body_edit.h"
#include "kvist/openai/codec.h"

namespace kvist::openai::usage_request_test {
namespace {

std::string edited(std::string_view body) {
  const Result<std::string> result = with_usage_requested(body);
  return result ? *result : "error: " + result.error().message;
}

TEST(WithUsageRequested, InsertsTheFieldAfterTheOpeningBrace) {
  EXPECT_EQ(edited(R"( { "model" : "m", "x": 1.50e0 } )"),
            R"( {"stream_options":{"include_usage":true}, "model" : "m", "x": 1.50e0 } )");
  EXPECT_EQ(edited("{ }"), R"({"stream_options":{"include_usage":true} })");
}

TEST(WithUsageRequested, LeavesABodyAloneThatAsksAlready) {
  const std::string body = R"({"stream_options" : {"a":[1,"]}"], "include_usage" : true } , "model":"m"})";
  EXPECT_EQ(edited(body), body);
}

TEST(WithUsageRequested, EditsInsideStreamOptions) {
  EXPECT_EQ(edited(R"({"stream_options":null,"model":"m"})"),
            R"({"stream_options":{"include_usage":true},"model":"m"})");
  EXPECT_EQ(edited(R"({"stream_options":{}})"), R"({"stream_options":{"include_usage":true}})");
  EXPECT_EQ(edited(R"({"stream_options": { "x": 1 }})"), R"({"stream_options": {"include_usage":true, "x": 1 }})");
  EXPECT_EQ(edited(R"({"a":1,"stream_options":{"include_usage" : false , "x":2}})"),
            R"({"a":1,"stream_options":{"include_usage" : true , "x":2}})");
  EXPECT_EQ(edited(R"({"stream_options":{"include_usage":null}})"), R"({"stream_options":{"include_usage":true}})");
}

TEST(WithUsageRequested, LeavesABodyAloneThatAsksForUsageInEveryChunkAndNotAtTheEnd) {
  for (const std::string body : {R"({"stream_options":{"continuous_usage_stats":true}})",
                                 R"({"stream_options":{"include_usage":false,"continuous_usage_stats":true},"x":1})",
                                 R"({"stream_options":{"continuous_usage_stats":1,"include_usage":null}})"})
    EXPECT_EQ(edited(body), body);
  EXPECT_EQ(edited(R"({"stream_options":{"continuous_usage_stats":false}})"),
            R"({"stream_options":{"include_usage":true,"continuous_usage_stats":false}})");
  const std::string both = R"({"stream_options":{"include_usage":true,"continuous_usage_stats":true}})";
  EXPECT_EQ(edited(both), both);
}

TEST(WithUsageRequested, InAnyCaseAsksAlsoWhereTheClientAsksForItInEveryChunk) {
  EXPECT_EQ(with_usage_in_any_case(R"({"stream_options":{"continuous_usage_stats":true}})").value(),
            R"({"stream_options":{"include_usage":true,"continuous_usage_stats":true}})");
  EXPECT_EQ(with_usage_in_any_case(R"({"stream_options":{"include_usage":false,"continuous_usage_stats":true},"x":1})")
                .value(),
            R"({"stream_options":{"include_usage":true,"continuous_usage_stats":true},"x":1})");
  EXPECT_EQ(with_usage_in_any_case(R"({"x":1})").value(), R"({"stream_options":{"include_usage":true},"x":1})");
  EXPECT_FALSE(with_usage_in_any_case("[]"));
}

TEST(AsksForStream, LooksAsAWorkerInPythonDoes) {
  for (const char* body : {R"({"stream":true})", R"({"a":[{"stream":false}],"stream":1})",
                           R"({"stream":false,"stream":true})", R"({"str\u0065am":true})"})
    EXPECT_TRUE(asks_for_stream(body)) << body;
  for (const char* body : {R"({"stream":false})", R"({"stream":null})", R"({"a":{"stream":true}})", "[]", "", "{",
                           R"({"stream":true,"stream":0})", R"({"stream":true)"})
    EXPECT_FALSE(asks_for_stream(body)) << body;
}

TEST(WithUsageRequested, IsNotMisledByLookAlikes) {
  const std::string insert = R"("stream_options":{"include_usage":true},)";
  for (const std::string rest :
       {R"("messages":[{"stream_options":{"include_usage":true}}]})",
        R"("x":"\"stream_options\":{\"include_usage\":true}"})", R"("a\"stream_options":{"include_usage":true}})",
        R"("Stream_options":{"include_usage":true}})", R"("metadata":{"stream_options":null,"y":{}},"z":"\\"})"})
    EXPECT_EQ(edited("{" + rest), "{" + insert + rest);
  EXPECT_EQ(edited(R"({"stream_options":{"x":{"include_usage":true}}})"),
            R"({"stream_options":{"include_usage":true,"x":{"include_usage":true}}})");
}

TEST(WithUsageRequested, KnowsEscapedKeys) {
  EXPECT_EQ(edited(R"({"stream\u005foptions":{"include\u005Fusage":false}})"),
            R"({"stream\u005foptions":{"include\u005Fusage":true}})");
}

TEST(WithUsageRequested, MakesEveryDuplicateTrue) {
  EXPECT_EQ(
      edited(R"({"stream_options":null,"stream_options":{"include_usage":false,"include_usage":true}})"),
      R"({"stream_options":{"include_usage":true},"stream_options":{"include_usage":true,"include_usage":true}})");
}

TEST(WithUsageRequested, RefusesNonRequests) {
  for (const char* body : {"", "[]", "{", R"({"a")", R"({"a":)", R"({"a":1)", R"({"a":"x)", R"({"a":[1})", R"({"a" 1})",
                           R"({"a":1,})", R"({"stream_options":3})", R"({"stream_options":"x"})"})
    EXPECT_FALSE(with_usage_requested(body)) << body;
}

// A random value whose strings and keys look like what the editor searches for.
void append_random_value(RandomStream& random, int depth, JsonWriter& json) {
  static const std::vector<std::string> kWords = {
      "stream_options", "include_usage", "\"", "\\", "{", "}", ":", "a\"b", "\n", "\xC3\xA9", "true"};
  const auto word = [&] {
    return kWords[static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(kWords.size()) - 1))];
  };
  const std::int64_t kind = random.uniform_int(0, depth > 0 ? 5 : 3);
  if (kind == 0) json.value(word());
  if (kind == 1) json.value(random.uniform_int(-5, 5));
  if (kind == 2) json.null();
  if (kind == 3) json.value(true);
  if (kind == 4) {
    json.begin_array();
    for (std::int64_t i = random.uniform_int(0, 3); i > 0; --i) append_random_value(random, depth - 1, json);
    json.end_array();
  }
  if (kind == 5) {
    json.begin_object();
    for (std::int64_t i = random.uniform_int(0, 3); i > 0; --i) {
      json.key(word());
      append_random_value(random, depth - 1, json);
    }
    json.end_object();
  }
}

void append_random_options(RandomStream& random, JsonWriter& json) {
  if (random.uniform() < 0.3) {
    json.null();
    return;
  }
  json.begin_object();
  if (random.uniform() < 0.5) {
    json.key("noise");
    append_random_value(random, 2, json);
  }
  if (random.uniform() < 0.6) json.field("include_usage", random.uniform() < 0.5);
  json.end_object();
}

std::string random_body(RandomStream& random) {
  JsonWriter json(static_cast<int>(random.uniform_int(0, 2)));
  json.begin_object();
  if (random.uniform() < 0.5) {
    json.key("noise1");
    append_random_value(random, 3, json);
  }
  json.field("model", "m\"{").field("seed", random.next());
  if (random.uniform() < 0.6) {
    json.key("stream_options");
    append_random_options(random, json);
  }
  json.key("messages").begin_array().begin_object().field("role", "user");
  json.field("content", "\"stream_options\":{\"include_usage\":false}").end_object().end_array();
  json.key("noise2");
  append_random_value(random, 3, json);
  json.end_object();
  return json.take();
}

TEST(WithUsageRequested, ChangesNothingElseInRandomBodies) {
  const std::uint64_t seed = 20'240'601;
  RecordProperty("seed", std::to_string(seed));
  RandomStream random(seed);
  for (int i = 0; i < 3'000; ++i) {
    const std::string body = random_body(random);
    SCOPED_TRACE(fmt::format("seed {}, body {}: {}", seed, i, body));
    const Result<ChatRequest> before = parse_chat_request(body);
    ASSERT_TRUE(before) << before.error().message;
    const Result<std::string> result = with_usage_requested(body);
    ASSERT_TRUE(result) << result.error().message;
    const Result<ChatRequest> after = parse_chat_request(*result);
    ASSERT_TRUE(after) << after.error().message << "\n" << *result;
    EXPECT_TRUE(after->options.include_usage) << *result;
    EXPECT_EQ(after->options.model, before->options.model);
    EXPECT_EQ(after->options.seed, before->options.seed);
    EXPECT_EQ(after->messages.at(0).content, before->messages.at(0).content);
    EXPECT_EQ(with_usage_requested(*result).value(), *result);
    // Without the inserted bytes, the text equals the body.
    EXPECT_LE(result->size(), body.size() + 40);
    const std::size_t tail = body.size() - body.rfind("\"messages\"");
    EXPECT_EQ(result->substr(result->size() - tail), body.substr(body.size() - tail));
  }
}

TEST(ModelProblem, SaysWhyThereIsNoModel) {
  const auto problem_of = [](std::string_view body) {
    const auto problem = model_problem(body);
    return problem ? problem->message : "none";
  };
  EXPECT_TRUE(problem_of("{x").contains("not valid JSON")) << problem_of("{x");
  EXPECT_TRUE(problem_of(R"({"model":5})").starts_with("model: expected a string")) << problem_of(R"({"model":5})");
  EXPECT_EQ(problem_of(R"({"messages":[]})"), "none");
  EXPECT_EQ(problem_of(R"({"model":"m"})"), "none");
}

TEST(ModelOf, IsTheFirstOfTheBodysOwnFields) {
  EXPECT_EQ(model_of(R"( {"a":{"model":"no"},"model" : "yes"})"), "yes");
  EXPECT_EQ(model_of(R"({"model":"a","model":"b"})"), "a");
  EXPECT_EQ(model_of(R"({"mo\u0064el":"meta\/llama \"x\""})"), R"(meta/llama "x")");
  EXPECT_EQ(model_of(R"({"model":"cut", and no JSON from here on)"), "cut");
  EXPECT_EQ(model_of(R"({"messages":[{"content":"\"model\":\"no\""}]})"), std::nullopt);
  for (const char* const body : {"", "[]", "\"model\"", "{", "{}", R"({"model":7})", R"({"model":null})", R"({"a")",
                                 R"({"a":1 "model":"x"})", R"({"model":"x)", "model=x", R"({"model":"\ud800"})"})
    EXPECT_EQ(model_of(body), std::nullopt) << body;
}

TEST(PriorityOf, IsPlainIfEveryReaderTakesItForTheSame) {
  const auto is = [](std::string_view body, std::int32_t value, bool is_plain) {
    const AskedPriority asked = priority_of(body);
    return asked.value == value && asked.is_plain == is_plain;
  };
  EXPECT_TRUE(is(R"({"model":"m","priority" : -7 })", -7, true));
  EXPECT_TRUE(is(R"({"pri\u006frity":3,"broken":NaN})", 3, true));
  EXPECT_TRUE(is("\xEF\xBB\xBF{\"priority\":3}", 3, true));
  for (const char* const body : {"", "[]", "{}", "{", R"({"priority":null})", R"({"priority":-7)", R"("priority")",
                                 R"({"a":{"priority":-7},"b":"\"priority\":-7"})"})
    EXPECT_TRUE(is(body, 0, true)) << body;
  for (const char* const odd : {R"("-7")", "-7.0", "-7e0", "true", "[-7]", "-99999999999", R"(0,"priority":-7)",
                                R"(-7,"priority":null,"priority":0)", R"("-7","priority":5)"})
    EXPECT_TRUE(is(std::string(R"({"priority":)") + odd + "}", 0, false)) << odd;
}

// Otherwise a body of nothing but short keys would keep its reader busy for seconds.
TEST(PriorityOf, IsNotKnownBehindMoreFieldsThanARequestMayHave) {
  const auto body = [](int fields) {
    std::string text = "{";
    for (int i = 0; i < fields; ++i) text += R"("\n":0,)";
    return text + R"("priority":-7,"model":"m"})";
  };
  EXPECT_EQ(priority_of(body(254)).value, -7);
  EXPECT_TRUE(priority_of(body(254)).is_known);
  EXPECT_FALSE(priority_of(body(255)).is_known);
  EXPECT_TRUE(with_priority(body(254), 2));
  EXPECT_FALSE(with_priority(body(255), 2));
  EXPECT_FALSE(with_model(body(255), "n"));
}

TEST(WithPriority, ReplacesAllOrBecomesTheFirstField) {
  EXPECT_EQ(with_priority(R"({"a":1,"priority":"-7", "pri\u006frity":-9})", 2),
            R"({"a":1,"priority":2, "pri\u006frity":2})");
  EXPECT_EQ(with_priority("\xEF\xBB\xBF {}", -1), "\xEF\xBB\xBF {\"priority\":-1}");
  EXPECT_EQ(with_priority(R"({"a":1})", 0), R"({"priority":0,"a":1})");
  EXPECT_FALSE(with_priority("{broken", 0));
}

// A request of more fields is refused when it is parsed, so they need not be looked at.
TEST(ModelOf, IsAmongAsManyFieldsAsARequestMayHave) {
  const auto body = [](std::size_t fields, std::string_view key) {
    std::string text = "{";
    for (std::size_t i = 0; i < fields; ++i) text += fmt::format("\"{}{}\":0,", key, i);
    return text + R"("model":"m"})";
  };
  EXPECT_EQ(model_of(body(255, "a")), "m");
  EXPECT_EQ(model_of(body(256, "a")), std::nullopt);
  EXPECT_EQ(model_of(body(255, R"(\u006dodel\u006dodel\u006dodel\u006dodel)")), "m");
  EXPECT_EQ(model_of(R"({"\u006d\u006f\u0064\u0065\u006c":"m"})"), "m");
}

}  // namespace
}  // namespace kvist::openai::usage_request_test
