#include "kvist/deploy/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <thread>

#include "deploy/scratch_folder.h"
#include "kvist/net/event_loop.h"

namespace kvist::deploy::child_process_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Duration kLong = std::chrono::seconds(30);

class ChildProcessTest : public testing::Test {
 protected:
  ChildProcess start(const std::string& body, std::vector<std::string> unset = {}) {
    auto child = ChildProcess::start({.name = "child",
                                      .executable = folder_.script("child.sh", body),
                                      .arguments = {"worker", "-f", "file.yaml"},
                                      .log_path = folder_.path("child.log"),
                                      .unset = std::move(unset)});
    EXPECT_TRUE(child.has_value()) << (child ? "" : child.error().message);
    return std::move(*child);
  }
  static Until long_enough() { return Until::after(kLong, {}); }

  ScratchFolder folder_;
};

TEST_F(ChildProcessTest, ItsOutputIsReadLineByLineAndItsErrorsGoToTheLog) {
  ChildProcess child = start("echo \"ready $1 $2 $3\"; echo second; echo trouble >&2; exit 0\n");
  EXPECT_EQ(child.read_line(long_enough()).value(), "ready worker -f file.yaml");
  EXPECT_EQ(child.read_line(long_enough()).value(), "second");
  EXPECT_EQ(child.wait(net::now() + kLong), "exit status 0");
  EXPECT_EQ(child.log_tail(), "trouble");
}

TEST_F(ChildProcessTest, AnEarlyDeathIsAnErrorWithTheEndOfTheLog) {
  ChildProcess child = start("i=0; while [ $i -lt 500 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 3\n");
  const auto line = child.read_line(long_enough());
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(line.error().message,
              AllOf(HasSubstr("exit status 3"), HasSubstr("line 499"), Not(HasSubstr("line 5\n"))));
  EXPECT_FALSE(child.check_running().has_value());
}

TEST_F(ChildProcessTest, ASilentChildMissesItsDeadline) {
  ChildProcess child = start("echo waiting >&2; echo up; exec sleep 1000\n");
  ASSERT_TRUE(child.read_line(long_enough()).has_value());
  const auto line = child.read_line(Until::after(std::chrono::milliseconds(200), {}));
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(line.error().message, HasSubstr("waiting"));
  EXPECT_TRUE(child.check_running().has_value());
}

TEST_F(ChildProcessTest, AnInterruptEndsTheWait) {
  ChildProcess child = start("exec sleep 1000\n");
  std::stop_source stop;
  std::jthread user([&] { stop.request_stop(); });
  const auto line = child.read_line(Until::after(kLong, stop.get_token()));
  ASSERT_FALSE(line.has_value());
  EXPECT_EQ(line.error().code, ErrorCode::kCancelled);
}

TEST_F(ChildProcessTest, TerminateSendsSigtermAndWaitReturnsTheStatus) {
  ChildProcess child = start("trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done\n");
  ASSERT_TRUE(child.read_line(long_enough()).has_value());
  child.terminate();
  EXPECT_EQ(child.wait(net::now() + kLong), "exit status 7");
}

TEST_F(ChildProcessTest, AChildThatDoesNotEndIsKilled) {
  ChildProcess child = start("trap '' TERM; echo up; while :; do sleep 0.02; done\n");
  ASSERT_TRUE(child.read_line(long_enough()).has_value());
  child.terminate();
  EXPECT_EQ(child.wait(net::now() + std::chrono::milliseconds(100)), "signal 9");
}

TEST_F(ChildProcessTest, DestroyingItEndsTheProcess) {
  pid_t pid = -1;
  {
    ChildProcess child = start("echo up; exec sleep 1000\n");
    ASSERT_TRUE(child.read_line(long_enough()).has_value());
    pid = child.pid();
    ASSERT_EQ(::kill(pid, 0), 0);
    const ChildProcess moved = std::move(child);
    ASSERT_EQ(::kill(pid, 0), 0) << "moving does not end it";
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(ChildProcessTest, ItDiesWithTheThreadThatStartedIt) {
  std::optional<ChildProcess> child;
  std::thread parent([&] {
    child = start("echo up; exec sleep 1000\n");
    EXPECT_TRUE(child->read_line(long_enough()).has_value());
  });
  parent.join();
  EXPECT_EQ(child->wait(net::now() + kLong), "signal 9");
}

TEST_F(ChildProcessTest, ItInheritsOnlyAllowedEnvironmentVariables) {
  ::setenv("KVIST_TEST_KEPT", "kept", 1);
  ::setenv("KVIST_TEST_UNSET", "leaked", 1);
  ChildProcess child = start("echo \"$KVIST_TEST_KEPT-$KVIST_TEST_UNSET\"\n", {"KVIST_TEST_UNSET"});
  EXPECT_EQ(child.read_line(long_enough()).value(), "kept-");
}

TEST_F(ChildProcessTest, ItInheritsNoOpenFiles) {
  const int leaked = ::dup(STDOUT_FILENO);
  ChildProcess child = start("ls /proc/self/fd | tr '\\n' ' '; echo\n");
  // 0, 1, 2, and the folder that ls reads.
  EXPECT_EQ(child.read_line(long_enough()).value(), "0 1 2 3 ");
  ::close(leaked);
}

TEST_F(ChildProcessTest, AProgramThatCannotRunIsAnErrorAtOnce) {
  const auto child = ChildProcess::start(
      {.name = "x", .executable = "/does/not/exist", .arguments = {}, .log_path = folder_.path("x.log"), .unset = {}});
  ASSERT_FALSE(child.has_value());
  EXPECT_THAT(child.error().message, AllOf(HasSubstr("/does/not/exist"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace kvist::deploy::child_process_test
