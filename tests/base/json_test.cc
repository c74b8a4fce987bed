#include "kvist/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kvist::json_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

class JsonTest : public testing::Test {
 protected:
  JsonValue root(std::string_view text) { return document_.parse(text).value(); }
  JsonObject object(std::string_view text) { return root(text).as_object().value(); }

  JsonDocument document_;
};

TEST_F(JsonTest, ReadsEachKind) {
  const JsonObject all =
      object(R"({"n":null,"b":true,"i":-3,"u":18446744073709551615,"d":2.5,"s":"é\n","a":[1],"o":{}})");
  std::vector<std::pair<std::string_view, JsonKind>> kinds;
  for (const auto [key, value] : all) kinds.emplace_back(key, value.kind());
  EXPECT_THAT(kinds,
              ElementsAre(Pair("n", JsonKind::kNull), Pair("b", JsonKind::kBool), Pair("i", JsonKind::kNumber),
                          Pair("u", JsonKind::kNumber), Pair("d", JsonKind::kNumber), Pair("s", JsonKind::kString),
                          Pair("a", JsonKind::kArray), Pair("o", JsonKind::kObject)));
  EXPECT_FALSE(all.find("n").value().has_value()) << "null counts as absent";
  EXPECT_TRUE(all.require_or_null("n").value().is_null());
  EXPECT_EQ(all.require_bool("b").value(), true);
  EXPECT_EQ(all.find_int("i", -10, 10).value(), -3);
  EXPECT_EQ(all.require_unsigned("u", 0, ~std::uint64_t{0}).value(), ~std::uint64_t{0});
  EXPECT_EQ(all.require_double("d", 0, 10).value(), 2.5);
  EXPECT_EQ(all.require_double("i", -10, 10).value(), -3) << "whole numbers are numbers";
  EXPECT_EQ(all.require_string("s").value(), "é\n");
  EXPECT_EQ(all.require_array("a").value().size(), 1U);
  EXPECT_EQ(all.require_object("o").value().size(), 0U);
  EXPECT_EQ(all.bool_or("missing", true).value(), true);
  EXPECT_EQ(all.size(), 8U);
}

TEST_F(JsonTest, ErrorsSayWhereAndWhatAndWhatWouldBeRight) {
  const JsonObject body =
      object(R"({"messages":[{"a":1},{"role":"user","content":[0,{"text":7}]}],"odd name":{"x":[]}})");
  const JsonArray messages = body.require_array("messages").value();
  std::vector<JsonObject> parts;
  for (const JsonValue value : messages) parts.push_back(value.as_object().value());
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(message(parts[0].require("role")), "messages[0].role: required, but missing");
  EXPECT_EQ(message(parts[0].find_string("a")), "messages[0].a: expected a string, got 1");
  EXPECT_EQ(message(parts[0].find_int("a", 2, 9)), "messages[0].a: expected an integer from 2 to 9, got 1");
  EXPECT_EQ(message(parts[1].find_bool("role")), "messages[1].role: expected true or false, got a string");
  EXPECT_EQ(message(parts[1].find_object("content")), "messages[1].content: expected an object, got an array");
  JsonValue last = parts[1].value();
  const JsonArray content = parts[1].require_array("content").value();
  for (const JsonValue value : content) last = value;
  EXPECT_EQ(last.path(), "messages[1].content[1]");
  EXPECT_EQ(last.as_object().value().require("text").value().path(), "messages[1].content[1].text");
  const JsonObject odd = body.require_object("odd name").value();
  EXPECT_EQ(message(odd.find_double("x", 0, 1)), "[\"odd name\"].x: expected a number from 0 to 1, got an array");
  EXPECT_EQ(odd.value().unsupported("x").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(body.value().path(), "");
  EXPECT_EQ(message(body.value().as_array()), "expected an array, got an object");
}

TEST_F(JsonTest, EachValueFindsItsWayFromTheRoot) {
  // All shapes of children before the one that is looked for.
  const std::string text =
      R"({"a":[],"b":{},"c":[[[]],{"d":1.5,"e":[null,true,"x",{"f":-1}]}],"g":"","h":18446744073709551615})";
  std::vector<std::string> paths;
  const auto walk = [&](const auto& self, const JsonValue& value) -> void {
    paths.push_back(value.path());
    if (const auto array = value.if_array()) {
      for (const JsonValue item : *array) self(self, item);
    } else if (const auto members = value.if_object()) {
      for (const auto [key, member] : *members) self(self, member);
    }
  };
  walk(walk, root(text));
  EXPECT_THAT(paths, ElementsAre("", "a", "b", "c", "c[0]", "c[0][0]", "c[1]", "c[1].d", "c[1].e", "c[1].e[0]",
                                 "c[1].e[1]", "c[1].e[2]", "c[1].e[3]", "c[1].e[3].f", "g", "h"));
}

TEST_F(JsonTest, RefusesANameThatIsGivenTwice) {
  const JsonObject twice = object(R"({"a":1,"b":2,"a":3,"c":null,"c":null})");
  EXPECT_EQ(message(twice.find("a")), "a: given more than once");
  EXPECT_EQ(message(twice.find("c")), "c: given more than once");
  EXPECT_FALSE(twice.peek("a").has_value());
  EXPECT_TRUE(twice.has("a"));
  EXPECT_EQ(twice.peek("b")->if_int(), 2) << "nobody asked for a";
}

TEST_F(JsonTest, FinishRefusesWhatNobodyAskedFor) {
  const JsonObject step = object(R"({"type":"Split","comment":null,"new idea":1})");
  (void)step.find("type");
  step.ignore({"comment", "absent"});
  EXPECT_EQ(message(step.finish()), "\"new idea\" is not known here");
  EXPECT_EQ(step.finish().error().code, ErrorCode::kUnsupported);
  (void)step.peek("new idea");
  EXPECT_TRUE(step.finish());
}

TEST_F(JsonTest, BoundsAreKept) {
  JsonDocument small(
      {.name = "a.json", .root = "body", .wrong = ErrorCode::kInvalidArgument, .most_bytes = 20, .most_depth = 4});
  EXPECT_EQ(message(small.parse(std::string(21, ' '))), "a.json: body: 21 bytes, at most 20 are read");
  EXPECT_EQ(small.parse(std::string(21, ' ')).error().code, ErrorCode::kTooLarge);
  EXPECT_TRUE(small.parse("[[[]]]"));
  EXPECT_EQ(message(small.parse("[[[[[[]]]]]]")), "a.json: body: nested more than 4 deep");
  EXPECT_EQ(message(small.parse("[99999999999999999]")), "no error");
  EXPECT_THAT(message(document_.parse("[1000000000000000000000000000000]")), HasSubstr("an integer beyond 64 bits"));
  EXPECT_EQ(small.parse("[1").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(message(small.parse_object("[]")), "a.json: body: expected an object, got an array");
  EXPECT_EQ(message(small.parse_object(R"({"a":1})").value().find_string("a")), "a.json: a: expected a string, got 1");

  std::string many = "{";
  for (std::size_t i = 0; i <= JsonObject::kMostNamed; ++i)
    many += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  const JsonObject large = object(many + "}");
  EXPECT_EQ(message(large.find("k1")), "more than 256 fields");
  EXPECT_FALSE(large.peek("k1").has_value());
  EXPECT_FALSE(large.finish());
}

TEST_F(JsonTest, ParsesOneTextAfterTheOther) {
  EXPECT_EQ(root("[1,2,3]").minified(), "[1,2,3]");
  const std::string large = "[" + std::string(100'000, ' ') + "\"x\"]";
  EXPECT_EQ(root(large).minified(), "[\"x\"]");
  EXPECT_FALSE(document_.parse("[1,"));
  EXPECT_FALSE(document_.parse(""));
  EXPECT_EQ(root(R"({ "a" : [ 1 , "b" ] })").minified(), R"({"a":[1,"b"]})");
  JsonDocument moved = std::move(document_);
  EXPECT_EQ(moved.parse("7").value().if_int(), 7);
}

TEST_F(JsonTest, OptionalReadsMakeNoErrors) {
  const JsonObject all = object(R"({"s":"x","i":-1,"d":1e300})");
  EXPECT_EQ(all.peek("s")->if_string(), "x");
  EXPECT_EQ(all.peek("s")->if_int(), std::nullopt);
  EXPECT_EQ(all.peek("i")->if_unsigned(), std::nullopt);
  EXPECT_EQ(all.peek("d")->if_double(), 1e300);
  EXPECT_FALSE(all.peek("none").has_value());
  EXPECT_FALSE(all.peek("d")->if_array().has_value());
  EXPECT_FALSE(all.peek("d")->if_object().has_value());
}

TEST(InQuotes, EscapesAndCutsOff) {
  EXPECT_EQ(in_quotes("a b"), "\"a b\"");
  EXPECT_EQ(in_quotes("a\n\xFF"), "\"a\\x0A\\xFF\"");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), "\"" + std::string(60, 'x') + "\"...");
}

}  // namespace
}  // namespace kvist::json_test
