#include "kvist/deploy/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(10);

[[noreturn]] void become(const char* command) {
  ::setpgid(0, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  ::_exit(127);
}

Result<void> result_of(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(ErrorCode::kUnavailable, WIFEXITED(status) ? fmt::format("ended with exit status {}", WEXITSTATUS(status))
                                                         : fmt::format("ended with signal {}", WTERMSIG(status)));
}

}  // namespace

Result<void> run_command(const std::string& command, const Until& until) {
  const auto failed = [&](Error error) { return std::unexpected(std::move(error).in("command " + command)); };
  const pid_t child = ::fork();
  if (child < 0) return failed({ErrorCode::kInternal, std::strerror(errno)});
  if (child == 0) become(command.c_str());
  ::setpgid(child, child);  // whoever is first: the group has to be there before it is killed
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) {
      auto result = result_of(status);
      if (!result) return failed(std::move(result).error());
      return {};
    }
    const bool in_time = net::now() < until.deadline;
    if (in_time && sleep_until(std::min(net::now() + kPoll, until.deadline), until.stop)) continue;
    ::kill(-child, SIGKILL);
    ::waitpid(child, &status, 0);
    if (in_time) return failed({ErrorCode::kCancelled, "interrupted"});
    return failed({ErrorCode::kDeadlineExceeded, "did not end in time"});
  }
}

}  // namespace kvist::deploy
