// The access log, into files and named pipes.
#include "kvist/gateway/access_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

namespace kvist::gateway::access_log_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class AccessLogTest : public testing::Test {
 protected:
  AccessLogTest() {
    std::signal(SIGPIPE, SIG_IGN);  // as in the gateway
    std::string made = (std::filesystem::temp_directory_path() / "kvist-access-log-XXXXXX").string();
    folder_ = ::mkdtemp(made.data());
    file_ = (folder_ / "access.log").string();
  }
  ~AccessLogTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::unique_ptr<AccessLog> open() const {
    auto log = AccessLog::open({.file = file_}, spec::LogFormat::kText);
    EXPECT_TRUE(log) << log.error().message;
    return log ? *std::move(log) : nullptr;
  }
  void make_pipe() const { ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0); }
  /// An end of the pipe that is read from; it does not wait for a writer.
  [[nodiscard]] int reader() const { return ::open(file_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }
  static void add(AccessLog& log, int requests) {
    for (int i = 0; i < requests; ++i) {
      log.add(std::make_shared<const RequestReport>(RequestReport{
          .request_id = "id-" + std::to_string(i), .method = "GET", .path = "/" + std::string(500, 'x')}));
    }
  }
  [[nodiscard]] static bool await(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
  /// All that can be read now.
  static std::string read(int descriptor) {
    std::string text;
    char buffer[65536];
    for (ssize_t got = 0; (got = ::read(descriptor, buffer, sizeof(buffer))) > 0;)
      text.append(buffer, static_cast<std::size_t>(got));
    return text;
  }

  std::filesystem::path folder_;
  std::string file_;
};

TEST_F(AccessLogTest, WritesALinePerRequestToAFile) {
  {
    const auto log = open();
    ASSERT_TRUE(log);
    add(*log, 100);
  }
  std::ifstream in(file_);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(std::ranges::count(text, '\n'), 100);
  EXPECT_THAT(text, HasSubstr("request_id=id-99"));
}

TEST_F(AccessLogTest, AFileThatCannotBeWrittenIsAnErrorThatNamesIt) {
  const auto log = AccessLog::open({.file = (folder_ / "none" / "access.log").string()}, spec::LogFormat::kText);
  ASSERT_FALSE(log);
  EXPECT_THAT(log.error().message, HasSubstr("none/access.log: No such file or directory"));
}

TEST_F(AccessLogTest, APipeThatNobodyReadsHoldsUpNobodyAndItsLinesWait) {
  make_pipe();
  const auto log = open();
  ASSERT_TRUE(log);
  add(*log, 3);
  EXPECT_EQ(log->counters().waiting, 3U);
  const int read_end = reader();
  ASSERT_GE(read_end, 0);
  EXPECT_TRUE(await([&] { return log->counters().lines == 3; }));
  EXPECT_THAT(read(read_end), HasSubstr("request_id=id-2"));
  EXPECT_EQ(log->counters().failures, 0U);
  ::close(read_end);
}

TEST_F(AccessLogTest, WithoutAReaderToTheEndItEnds) {
  make_pipe();
  const auto log = open();
  ASSERT_TRUE(log);
  add(*log, 3);
}

TEST_F(AccessLogTest, AReaderWhoIsTooSlowDoesNotHoldUpTheEnd) {
  make_pipe();
  const int read_end = reader();
  ASSERT_GE(read_end, 0);
  bool over = false;
  std::thread ends([&] {
    const auto log = open();
    if (log) add(*log, 16'000);  // some 9 MB
    over = true;
  });
  // Far too slow for all of it, but never so slow that a single write would be given up.
  std::size_t got = 0;
  std::thread slow([&] {
    char buffer[4096];
    for (ssize_t bytes = 1; bytes != 0;) {
      bytes = ::read(read_end, buffer, sizeof(buffer));
      if (bytes > 0) got += static_cast<std::size_t>(bytes);
      std::this_thread::sleep_for(milliseconds(10));
      if (bytes < 0) bytes = 1;               // nothing there now
      if (bytes == 0 && got == 0) bytes = 1;  // nobody writes yet
    }
  });
  ends.join();
  EXPECT_TRUE(over);
  slow.join();
  EXPECT_LT(got, 16'000U * 500);
  ::close(read_end);
}

TEST_F(AccessLogTest, ALineBehindHalfAOneIsWhole) {
  make_pipe();
  const auto log = open();
  ASSERT_TRUE(log);
  add(*log, 500);  // some 280 kB in one batch, of which the pipe takes 64 kB
  const int read_end = reader();
  ASSERT_GE(read_end, 0);
  const auto done = [&] { return log->counters().lines + log->counters().failures; };
  ASSERT_TRUE(await([&] { return done() == 500; }));
  const std::string first = read(read_end);
  ASSERT_FALSE(first.ends_with("\n"));
  add(*log, 1);
  ASSERT_TRUE(await([&] { return done() == 501; }));
  const std::string text = first + read(read_end);
  EXPECT_THAT(text.substr(first.size()), testing::StartsWith("\n"));
  const auto lines = static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
  EXPECT_EQ(log->counters().lines, lines - 1) << "half a line is lost";
  add(*log, 1);
  ASSERT_TRUE(await([&] { return done() == 502; }));
  EXPECT_THAT(read(read_end), testing::Not(testing::StartsWith("\n")));
  ::close(read_end);
}

TEST_F(AccessLogTest, WhatAReaderWhoLeftDoesNotGetIsCounted) {
  make_pipe();
  const int read_end = reader();
  const auto log = open();
  ASSERT_TRUE(log);
  ::close(read_end);
  add(*log, 5);
  EXPECT_TRUE(await([&] { return log->counters().failures == 5; }));
}

}  // namespace
}  // namespace kvist::gateway::access_log_test
