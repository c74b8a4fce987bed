#include "kvist/net/sse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvist::net::sse_test {
namespace {

using testing::ElementsAre;

struct Parsed {
  std::vector<std::string> data;  // of events that have some
  std::string raw;                // of all events
  std::string rest;
};

Parsed parse(const std::vector<std::string_view>& feeds) {
  SseParser parser;
  Parsed out;
  for (const std::string_view bytes : feeds) {
    EXPECT_TRUE(parser.feed(bytes));
    SseParser::Event event;
    while (parser.next(event)) {
      if (!event.data.empty()) out.data.emplace_back(event.data);
      out.raw += event.raw;
    }
  }
  out.rest = parser.rest();
  return out;
}

constexpr std::string_view kAllForms =
    "\xEF\xBB\xBF"
    "data: {\"a\":1}\n\n"
    ": comment\n\n"
    "data:no space\r\n\r\n"
    "event: x\rdata: carriage\r\r"
    "data: one\ndata: two\r\ndata\n\n"
    "\n"
    "database: no\n\n"
    "data:  two spaces\n\n"
    "data: [DONE]\n\n"
    "data: cut off";

TEST(SseParser, ReadsEveryLineEndAndField) {
  const Parsed parsed = parse({kAllForms});
  EXPECT_THAT(parsed.data, ElementsAre("{\"a\":1}", "no space", "carriage", "one\ntwo\n", " two spaces", "[DONE]"));
  EXPECT_EQ(parsed.rest, "data: cut off");
}

TEST(SseParser, GivesTheSameEventsWhereverTheStreamIsSplit) {
  const Parsed whole = parse({kAllForms});
  for (std::size_t first = 0; first <= kAllForms.size(); ++first) {
    for (std::size_t second = first; second <= kAllForms.size(); ++second) {
      const Parsed split =
          parse({kAllForms.substr(0, first), kAllForms.substr(first, second - first), kAllForms.substr(second)});
      ASSERT_EQ(split.data, whole.data) << "split at " << first << " and " << second;
      ASSERT_EQ(split.raw + split.rest, kAllForms) << "split at " << first << " and " << second;
    }
  }
}

TEST(SseParser, GivesTheSameEventsByteByByte) {
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < kAllForms.size(); ++i) bytes.push_back(kAllForms.substr(i, 1));
  const Parsed split = parse(bytes);
  EXPECT_EQ(split.data, parse({kAllForms}).data);
  EXPECT_EQ(split.raw + split.rest, kAllForms);
}

TEST(SseParser, GivesAnEventOutBeforeTheLineFeedThatMayFollow) {
  SseParser parser;
  ASSERT_TRUE(parser.feed("data: x\r\n\r"));
  SseParser::Event event;
  ASSERT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, "x");
  EXPECT_FALSE(parser.next(event));
  ASSERT_TRUE(parser.feed("\ndata: y\r\n\r\n"));
  ASSERT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, "y");
  EXPECT_FALSE(parser.next(event));
}

TEST(SseParser, KeepsUntakenEventsOverFurtherFeeds) {
  SseParser parser;
  ASSERT_TRUE(parser.feed("data: 1\n\ndata: 2\n\nda"));
  SseParser::Event event;
  ASSERT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, "1");
  ASSERT_TRUE(parser.feed("ta: 3\n\n"));
  ASSERT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, "2");
  ASSERT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, "3");
  EXPECT_FALSE(parser.next(event));
}

TEST(SseParser, RefusesAnEventThatGrowsTooLarge) {
  SseParser parser(16);
  ASSERT_TRUE(parser.feed("data: 0123456"));
  const auto fed = parser.feed("789");
  ASSERT_TRUE(fed);  // 16 bytes exactly
  const auto more = parser.feed("x");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kTooLarge);
  const std::size_t kept = parser.rest().size();
  EXPECT_FALSE(parser.feed("\n\n"));
  EXPECT_FALSE(parser.feed(std::string(1000, 'y')));
  EXPECT_EQ(parser.rest().size(), kept) << "what comes after it is not kept";
}

TEST(SseParser, RefusesACompleteEventThatIsTooLargeAfterGivingThoseBefore) {
  SseParser parser(16);
  ASSERT_FALSE(parser.feed("data: 1\n\ndata: 0123456789\n\n"));
  SseParser::Event event;
  ASSERT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, "1");
  EXPECT_FALSE(parser.next(event));
}

TEST(SseParser, ManySmallEventsMayExceedTheBoundTogether) {
  SseParser parser(16);
  std::string burst;
  for (int i = 0; i < 1000; ++i) burst += "data: 12345\n\n";
  ASSERT_TRUE(parser.feed(burst));
  SseParser::Event event;
  int count = 0;
  while (parser.next(event)) ++count;
  EXPECT_EQ(count, 1000);
}

// Reads `bytes` behind `before` in both ways, which have to agree.
std::optional<std::string> data_of_whole_event(std::string_view before, std::string_view bytes) {
  SseParser parser(1'000);
  SseParser::Event event;
  EXPECT_TRUE(parser.feed(before));
  while (parser.next(event)) {
  }
  const std::string rest(parser.rest());
  const std::optional<std::string_view> data = parser.data_of_whole_event(bytes);
  if (!data) return std::nullopt;
  EXPECT_EQ(rest, "");
  EXPECT_TRUE(parser.feed(bytes));
  EXPECT_TRUE(parser.next(event));
  EXPECT_EQ(event.data, *data);
  EXPECT_EQ(event.raw, bytes);
  EXPECT_FALSE(parser.next(event));
  EXPECT_EQ(parser.rest(), "");
  return std::string(*data);
}

TEST(SseParser, AWholeEventNeedsNoCopy) {
  EXPECT_EQ(data_of_whole_event("data: 1\n\n", "data: 2\n\n"), "2");
  EXPECT_EQ(data_of_whole_event("data: 1\r\n\r\n", "data:2\n\n"), "2");
  const std::string longer(700, 'x');
  EXPECT_EQ(data_of_whole_event(": comment\n\n", "data: " + longer + "\n\n"), longer);
}

TEST(SseParser, WhatIsNoWholeEventHasToBeFed) {
  const std::string_view whole = "data: 2\n\n";
  EXPECT_FALSE(data_of_whole_event("", whole)) << "a byte order mark is looked for";
  EXPECT_FALSE(data_of_whole_event("data: 1\n", whole));
  EXPECT_FALSE(data_of_whole_event("data: 1\n\nda", whole));
  EXPECT_FALSE(data_of_whole_event("data: 1\r\r", whole)) << "a line feed would belong to the event before";
  for (const std::string_view other :
       {"", "\n\n", "data: 2\n", "data: 2\n\n\n\n", "data: 2\ndata: 3\n\n", "data: 2\n\ndata: 3\n\n", "data: 2\rx\n\n",
        "data: 2\r\n\n", ": comment\n\n", "event: x\n\n", "data: 2\r\n\r\n"})
    EXPECT_FALSE(data_of_whole_event("data: 1\n\n", other)) << other;
  EXPECT_FALSE(data_of_whole_event("data: 1\n\n", "data: " + std::string(1'000, 'x') + "\n\n")) << "too large";
}

// Line ends are looked for in pieces of some hundred bytes.
TEST(SseParser, FindsLineEndsAtAnyDistance) {
  for (std::size_t length = 0; length < 600; ++length) {
    for (const std::string_view end : {"\n\n", "\r\r", "\r\n\r\n"}) {
      const std::string text(length, 'x');
      const std::string stream = "data: " + text + std::string(end) + "data: y" + std::string(end);
      const Parsed parsed = parse({stream});
      if (length > 0) {
        ASSERT_THAT(parsed.data, ElementsAre(text, "y")) << length;
      }
      ASSERT_EQ(parsed.raw, stream) << length;
    }
  }
}

TEST(AppendSseData, WritesWhatTheParserReads) {
  std::string out;
  append_sse_data(out, "{\"x\":\"y\"}");
  EXPECT_EQ(out, "data: {\"x\":\"y\"}\n\n");
}

}  // namespace
}  // namespace kvist::net::sse_test
