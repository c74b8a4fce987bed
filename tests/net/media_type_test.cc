#include "kvist/net/media_type.h"

#include <gtest/gtest.h>

namespace kvist::net::media_type_test {
namespace {

TEST(MediaType, IsWhatPrecedesTheParameters) {
  EXPECT_EQ(media_type("application/json"), "application/json");
  EXPECT_EQ(media_type(" Text/Event-Stream\t; charset=utf-8"), "Text/Event-Stream");
  EXPECT_EQ(media_type(";charset=utf-8"), "");
  EXPECT_EQ(media_type(" "), "");
  EXPECT_EQ(media_type(""), "");
}

TEST(MediaType, HasNoCaseAndIsTheWholeName) {
  const auto is_stream = [](const char* type) {
    Headers headers;
    headers.add("content-type", type);
    return has_media_type(headers, "text/event-stream");
  };
  EXPECT_TRUE(is_stream("text/event-stream"));
  EXPECT_TRUE(is_stream("TEXT/Event-Stream ; charset=utf-8"));
  EXPECT_FALSE(is_stream("text/event-streams"));
  EXPECT_FALSE(is_stream("text/event"));
  EXPECT_FALSE(is_stream(""));
  EXPECT_FALSE(has_media_type({}, "text/event-stream"));
}

}  // namespace
}  // namespace kvist::net::media_type_test
