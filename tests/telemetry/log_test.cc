#include "kvist/telemetry/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace kvist::telemetry::log_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(Log, WritesTimeLevelProcessComponentAndMessage) {
  start_logging(LogLevel::kInfo, "worker-1");
  testing::internal::CaptureStderr();
  log_info("http", "listening on 80 % {} done");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              ContainsRegex("^20[0-9-]+T[0-9:.]+[+-][0-9:]+ info worker-1 http: listening on 80 % \\{\\} done\n$"));
}

TEST(Log, OmitsMessagesBelowTheLevel) {
  start_logging(LogLevel::kWarning, "p");
  testing::internal::CaptureStderr();
  log_debug("c", "one");
  log_info("c", "two");
  log_warning("c", "three");
  log_error("c", "four");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("one")));
  EXPECT_THAT(text, Not(HasSubstr("two")));
  EXPECT_THAT(text, HasSubstr("three"));
  EXPECT_THAT(text, HasSubstr("four"));
}

TEST(Log, AMessageNeverBecomesTwoLines) {
  start_logging(LogLevel::kInfo, "100%p");
  testing::internal::CaptureStderr();
  log_info("c", "a\nforged line\r\n");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, HasSubstr("100%p c: a forged line"));
}

TEST(Log, AMessageDoesNothingToATerminal) {
  start_logging(LogLevel::kInfo, "p");
  testing::internal::CaptureStderr();
  log_info("c", std::string("clear \x1b[2J bell \a nul ") + '\0' + " del \x7f tab \t caf\xc3\xa9");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("clear \\x1b[2J bell \\x07 nul \\x00 del \\x7f tab \\x09 caf\xc3\xa9\n"));
}

// Or what a worker says of itself could have the rest of the line read backwards.
TEST(Log, AMessageIsShownInTheOrderOfItsCharacters) {
  start_logging(LogLevel::kInfo, "p");
  testing::internal::CaptureStderr();
  log_info("c", "\u202a \u202e \u2066 \u2069 but \u2029 \u202f \u2065 \u206a");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("c: \\u202a \\u202e \\u2066 \\u2069 but \u2029 \u202f \u2065 \u206a\n"));
}

// U+009B begins a sequence as ESC [ does, and so does the byte alone for a terminal that does not read UTF-8.
TEST(Log, AMessageDoesNothingToATerminalThatKnowsEightBitControls) {
  start_logging(LogLevel::kInfo, "p");
  testing::internal::CaptureStderr();
  log_info("c",
           "a\xc2\x9b"
           "2Jb\xc2\x80\xc2\x9f\xc2\xa0\x9b"
           "2J\xff\xe2\x82");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("c: a\\x9b2Jb\\x80\\x9f\xc2\xa0\\x9b2J\\xff\\xe2\\x82\n"));
}

TEST(Log, AsJsonALineIsAnObject) {
  start_logging(LogLevel::kInfo, "gate \"1\" 100%v", LogFormat::kJson);
  testing::internal::CaptureStderr();
  log_warning("http", "a\n\"quoted\" line");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, ContainsRegex("^\\{\"time\":\"20[0-9-]+T[0-9:.]+[+-][0-9:]+\",\"level\":\"warning\","));
  EXPECT_THAT(text, HasSubstr(R"("process":"gate \"1\" 100%v","component":"http","message":"a\n\"quoted\" line"})"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  start_logging(LogLevel::kInfo, "p");
  testing::internal::CaptureStderr();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 100; ++n) log_info("c", "0123456789");
    });
  }
  threads.clear();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(text, '\n'), 400);
  std::size_t whole = 0;
  for (std::size_t at = text.find("info p c: 0123456789\n"); at != std::string::npos;
       at = text.find("info p c: 0123456789\n", at + 1)) {
    ++whole;
  }
  EXPECT_EQ(whole, 400U);
}

}  // namespace
}  // namespace kvist::telemetry::log_test
