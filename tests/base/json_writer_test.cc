#include "kvist/base/json_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "kvist/base/utf8.h"

namespace kvist::json_writer_test {
namespace {

TEST(JsonWriter, WritesNestedDocuments) {
  JsonWriter json;
  json.begin_object().field("name", "a\"b\n").field("count", 3).field("share", 0.5).key("list").begin_array();
  json.value(true).null().value(std::numeric_limits<double>::infinity()).end_array().key("empty").begin_object();
  json.end_object().end_object();
  EXPECT_EQ(json.take(), R"({"name":"a\"b\n","count":3,"share":0.5,"list":[true,null,null],"empty":{}})");
}

TEST(JsonWriter, IndentsWhenAsked) {
  JsonWriter json(1);
  json.begin_object().key("a").begin_array().value(1).value(2).end_array().end_object();
  EXPECT_EQ(json.take(), "{\n \"a\": [\n  1,\n  2\n ]\n}");
}

TEST(JsonString, ReplacesInvalidUtf8AndEscapesControls) {
  std::string out;
  append_json_string(out, std::string("\x01\xC3\xA9\xFF\xE2\x82", 6));
  EXPECT_EQ(out, "\"\\u0001\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(Utf8, RefusesOverlongSurrogatesAndTruncation) {
  EXPECT_EQ(utf8_sequence_length("a"), 1U);
  EXPECT_EQ(utf8_sequence_length("\xE2\x82\xAC"), 3U);
  EXPECT_EQ(utf8_sequence_length("\xF0\x9F\x98\x80"), 4U);
  EXPECT_EQ(utf8_sequence_length("\xC0\x80"), 0U);      // overlong
  EXPECT_EQ(utf8_sequence_length("\xED\xA0\x80"), 0U);  // surrogate
  EXPECT_EQ(utf8_sequence_length("\xF5\x80\x80\x80"), 0U);
  EXPECT_EQ(utf8_sequence_length("\xE2\x82"), 0U);
}

TEST(Utf8, FindsTheUnfinishedTail) {
  EXPECT_EQ(utf8_incomplete_tail("abc"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("a\xE2"), 1U);
  EXPECT_EQ(utf8_incomplete_tail("a\xE2\x82"), 2U);
  EXPECT_EQ(utf8_incomplete_tail("a\xE2\x82\xAC"), 0U);
  EXPECT_EQ(utf8_incomplete_tail("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(utf8_incomplete_tail("\x80\x80"), 0U);  // can never become valid
}

TEST(JsonWriter, RoundsWhatIsBehindTheScaleAndKnowsNoValue) {
  JsonWriter json;
  json.begin_object().rounded_field("a", 1.00000049).rounded_field("b", 1.26, 10).rounded_field("c", std::nullopt);
  json.rounded_field("d", std::numeric_limits<double>::infinity()).end_object();
  EXPECT_EQ(json.take(), R"({"a":1,"b":1.3,"c":null,"d":null})");
}

}  // namespace
}  // namespace kvist::json_writer_test
