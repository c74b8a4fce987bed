#include "kvist/deploy/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "kvist/net/event_loop.h"

extern "C" char** environ;

namespace kvist::deploy {
namespace {

constexpr std::size_t kMaxLineBytes = 4'096;
constexpr std::size_t kLogTailBytes = 2'048;
constexpr Duration kPollSlice = std::chrono::milliseconds(50);  // how fast an interrupt is noticed
constexpr Duration kReapPause = std::chrono::milliseconds(5);
constexpr Duration kGraceOfDestructor = std::chrono::seconds(2);

/// A file descriptor that is closed at the end of its scope unless released.
class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd() { close(); }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

Error system_error(const std::string& what, int number) {
  return {ErrorCode::kInternal, fmt::format("{}: {}", what, std::strerror(number))};
}

/// Everything the child needs between fork and exec, made before: only async-signal-safe calls are allowed there.
struct Launch {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int output = -1;
  int log = -1;
  int input = -1;
  int failure = -1;  // errno of a failed exec goes here
  pid_t parent = -1;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_without(const std::vector<std::string>& unset) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (std::ranges::find(unset, name) == unset.end()) result.emplace_back(text);
  }
  return result;
}

[[noreturn]] void become(const char* executable, const Launch& launch) {
  // Signals as a fresh process has them, whatever the parent blocks or ignores.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::signal(signal, SIG_DFL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launch.parent) _exit(127);  // the parent died before the line above
  dup2(launch.input, STDIN_FILENO);
  dup2(launch.output, STDOUT_FILENO);
  dup2(launch.log, STDERR_FILENO);
  close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);  // sockets and files of the parent are not the child's
  execve(executable, launch.arguments.data(), launch.environment.data());
  const int number = errno;
  (void)!::write(launch.failure, &number, sizeof number);
  _exit(127);
}

std::string describe(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  return fmt::format("signal {}", WTERMSIG(status));
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildOptions& options) {
  const auto failed = [&](const std::string& what) {
    return std::unexpected(system_error(fmt::format("{}: {}", options.name, what), errno));
  };
  OwnedFd log(::open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) return failed("log file " + options.log_path);
  OwnedFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (input.get() < 0) return failed("/dev/null");
  std::array<int, 2> output{};
  std::array<int, 2> failure{};
  if (pipe2(output.data(), O_CLOEXEC) != 0) return failed("pipe");
  OwnedFd output_read(output[0]);
  OwnedFd output_write(output[1]);
  if (pipe2(failure.data(), O_CLOEXEC) != 0) return failed("pipe");
  OwnedFd failure_read(failure[0]);
  OwnedFd failure_write(failure[1]);

  std::vector<std::string> arguments{"kvist"};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = environment_without(options.unset);
  const Launch launch{pointers(arguments),
                      pointers(environment),
                      output_write.get(),
                      log.get(),
                      input.get(),
                      failure_write.get(),
                      getpid()};
  const pid_t pid = fork();
  if (pid < 0) return failed("fork");
  if (pid == 0) become(options.executable.c_str(), launch);

  ChildProcess child;
  child.name_ = options.name;
  child.log_path_ = options.log_path;
  child.pid_ = pid;
  child.output_ = output_read.release();
  failure_write.close();
  int number = 0;
  ssize_t got = 0;
  do {
    got = ::read(failure_read.get(), &number, sizeof number);  // ends at exec, which closes the other end
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof number)) {
    return std::unexpected(system_error(fmt::format("{}: cannot run {}", options.name, options.executable), number));
  }
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      log_path_(std::move(other.log_path_)),
      buffered_(std::move(other.buffered_)),
      pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      status_(other.status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  // The old child of this object ends with `other`.
  std::swap(name_, other.name_);
  std::swap(log_path_, other.log_path_);
  std::swap(buffered_, other.buffered_);
  std::swap(pid_, other.pid_);
  std::swap(output_, other.output_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    terminate();
    wait(net::now() + kGraceOfDestructor);
  }
  if (output_ >= 0) ::close(output_);
}

bool ChildProcess::reap() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

void ChildProcess::send(int signal) const {
  // Not yet collected, so the process id cannot have gone to somebody else.
  if (pid_ > 0 && !status_) (void)::kill(pid_, signal);
}

void ChildProcess::terminate() {
  if (!reap()) send(SIGTERM);
}

std::string ChildProcess::wait(TimePoint deadline) {
  bool killed = false;
  while (!reap()) {
    if (!killed && net::now() >= deadline) {
      send(SIGKILL);  // nothing survives it, so the loop ends
      killed = true;
    }
    (void)sleep_until(net::now() + kReapPause, {});
  }
  return describe(*status_);
}

Error ChildProcess::ended_error() const {
  const std::string tail = log_tail();
  return {ErrorCode::kUnavailable,
          fmt::format("{} (process {}) ended with {}; {}", name_, pid_, describe(status_.value_or(0)),
                      tail.empty() ? "its log " + log_path_ + " is empty" : "the end of " + log_path_ + ":\n" + tail)};
}

Result<void> ChildProcess::check_running() {
  if (reap()) return std::unexpected(ended_error());
  return {};
}

Result<std::string> ChildProcess::read_line(const Until& until) {
  while (true) {
    if (const auto end = buffered_.find('\n'); end != std::string::npos) {
      std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      return line;
    }
    if (buffered_.size() > kMaxLineBytes) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: a line of its output exceeds {} bytes", name_, kMaxLineBytes));
    }
    if (until.stop.stop_requested()) return fail(ErrorCode::kCancelled, name_ + ": interrupted");
    if (net::now() >= until.deadline) {
      return fail(ErrorCode::kDeadlineExceeded,
                  fmt::format("{} (process {}) did not get ready in time; the end of {}:\n{}", name_, pid_, log_path_,
                              log_tail()));
    }
    pollfd ready{.fd = output_, .events = POLLIN, .revents = 0};
    const auto slice = std::chrono::duration_cast<std::chrono::milliseconds>(until.left(kPollSlice));
    if (::poll(&ready, 1, static_cast<int>(slice.count()) + 1) <= 0) continue;
    std::array<char, 512> piece{};
    const ssize_t got = ::read(output_, piece.data(), piece.size());
    if (got > 0) {
      buffered_.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {  // output closed: it is ending, or has ended
      wait(std::min(until.deadline, net::now() + kGraceOfDestructor));
      return std::unexpected(ended_error());
    }
  }
}

std::string ChildProcess::log_tail() const {
  std::ifstream file(log_path_, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  const std::size_t from = size > kLogTailBytes ? size - kLogTailBytes : 0;
  file.seekg(static_cast<std::streamoff>(from));
  std::string tail(size - from, '\0');
  file.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  tail.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (from > 0) tail.erase(0, tail.find('\n') + 1);  // a line cut in half
  while (tail.ends_with('\n')) tail.pop_back();
  return tail;
}

}  // namespace kvist::deploy
