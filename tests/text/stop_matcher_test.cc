#include "kvist/text/stop_matcher.h"

#include <gtest/gtest.h>

#include "kvist/base/random.h"

namespace kvist::text::stop_matcher_test {
namespace {

StopMatcher matcher_of(const std::vector<std::string>& stops, bool include_stop = false) {
  return StopMatcher::create(stops, include_stop).value();
}

// The text released by each piece and by finish(), joined by '|'.
std::string steps(StopMatcher matcher, const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += matcher.push(piece) + "|";
  return out + matcher.finish();
}

TEST(StopMatcher, WithoutStopStringsPassesAllOn) {
  EXPECT_EQ(steps(StopMatcher(), {"ab", "", "c"}), "ab||c|");
}

TEST(StopMatcher, ReleasesWhatPrecedesTheStop) {
  EXPECT_EQ(steps(matcher_of({"END"}), {"one END two"}), "one |");
  EXPECT_EQ(steps(matcher_of({"END"}, true), {"one END two"}), "one END|");
}

TEST(StopMatcher, WorksAcrossPieces) {
  EXPECT_EQ(steps(matcher_of({"END"}), {"one E", "N", "D two"}), "one |||");
  EXPECT_EQ(steps(matcher_of({"END"}, true), {"one E", "N", "D two", "x"}), "one ||END||");
}

TEST(StopMatcher, HoldsBackNoMoreThanMayBecomeAStop) {
  EXPECT_EQ(steps(matcher_of({"END"}), {"EN", "EN", "ENE", "x"}), "|EN|ENEN|Ex|");
  EXPECT_EQ(steps(matcher_of({"aab"}), {"a", "a", "a", "a", "c"}), "||a|a|aac|");
  EXPECT_EQ(steps(matcher_of({"END"}), {"xEN"}), "x|EN");
}

TEST(StopMatcher, TheStopThatIsCompleteFirstCounts) {
  StopMatcher matcher = matcher_of({"abcd", "bc"});
  EXPECT_EQ(matcher.push("xabcd"), "xa");
  EXPECT_EQ(matcher.stop(), "bc");
  StopMatcher longest = matcher_of({"bc", "abc", "c"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.stop(), "abc");
}

TEST(StopMatcher, ReleasesNothingAfterTheStop) {
  StopMatcher matcher = matcher_of({"."});
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("a.b"), "a");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, WhatEndsWhereItMayNotStopIsPassedOver) {
  StopMatcher matcher = matcher_of({"aa"});
  EXPECT_EQ(matcher.push("xaaa", false), "xaa") << "the last may begin another one";
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("b"), "ab");
  EXPECT_EQ(matcher.push("a", false), "");
  EXPECT_EQ(matcher.push("a"), "") << "it began before";
  EXPECT_TRUE(matcher.stopped());
  // A text that itself contains the byte behind a string's end.
  StopMatcher one = matcher_of({"a"});
  EXPECT_EQ(one.push(std::string_view("a\0a\0", 4), false), std::string_view("a\0a\0", 4));
  EXPECT_EQ(one.push("ba"), "b");
}

TEST(StopMatcher, NeverCutsACharacter) {
  // Both begin with the same two bytes.
  StopMatcher matcher = matcher_of({"\u20AC!"});
  EXPECT_EQ(matcher.push("a\u20AD"), "a\u20AD");
  EXPECT_EQ(matcher.push("b\u20AC"), "b");
  EXPECT_EQ(matcher.held_bytes(), 3U);
  EXPECT_EQ(matcher.push("?"), "\u20AC?");
}

TEST(StopMatcher, RefusesEmptyOrTooManyOrTooLongStops) {
  EXPECT_NE(StopMatcher::create({"a", ""}).error().message.find("stop[1]"), std::string::npos);
  EXPECT_FALSE(StopMatcher::create(std::vector<std::string>(65, "a")).has_value());
  EXPECT_FALSE(StopMatcher::create({std::string(4'097, 'a')}).has_value());
}

TEST(StopMatcher, TheOutcomeDoesNotDependOnHowTheTextIsCut) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  const auto letters = [&](std::int64_t least, std::int64_t most) {
    std::string text;
    for (std::int64_t n = random.uniform_int(least, most); n > 0; --n) {
      text += static_cast<char>('a' + random.uniform_int(0, 1));
    }
    return text;
  };
  for (int round = 0; round < 3'000; ++round) {
    std::vector<std::string> stops;
    for (std::int64_t n = random.uniform_int(1, 3); n > 0; --n) stops.push_back(letters(1, 7));
    const std::string text = letters(0, 60);
    const bool include = random.uniform() < 0.5;
    // Straight from the definition.
    std::string expected = text;
    for (std::size_t end = 1; end <= text.size() && expected == text; ++end) {
      std::size_t longest = 0;
      for (const std::string& stop : stops) {
        if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      }
      if (longest == 0) continue;
      expected = text.substr(0, include ? end : end - longest);
      break;
    }
    StopMatcher matcher = matcher_of(stops, include);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const auto length = static_cast<std::size_t>(random.uniform_int(0, 5));
      out += matcher.push(std::string_view(text).substr(at, length));
      at += length;
      std::size_t most = 0;
      for (const std::string& stop : stops) most = std::max(most, stop.size() - 1);
      ASSERT_LE(matcher.held_bytes(), most);
    }
    out += matcher.finish();
    ASSERT_EQ(out, expected) << text;
  }
}

}  // namespace
}  // namespace kvist::text::stop_matcher_test
