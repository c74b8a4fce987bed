#include "kvist/gateway/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "kvist/gateway/access_line.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/time_of_day.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr mode_t kMode = 0640;
/// How long a pipe may take nothing, how long it may do so at the end, and how often the file's name is checked.
constexpr Duration kPatience = std::chrono::seconds(1);
constexpr Duration kLastPatience = std::chrono::seconds(1);
constexpr Duration kLookEvery = std::chrono::seconds(1);

bool is_stream(const std::string& file) {
  return file == "stderr" || file == "stdout";
}

// Without O_NONBLOCK, opening a named pipe would wait for somebody who reads it.
int open_file(const std::string& file) {
  if (file == "stderr") return STDERR_FILENO;
  if (file == "stdout") return STDOUT_FILENO;
  return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, kMode);
}

/// The error of a file that could not be opened.
bool is_unread_pipe(const std::string& file, int error) {
  struct stat named{};
  return error == ENXIO && ::stat(file.c_str(), &named) == 0 && S_ISFIFO(named.st_mode);
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const spec::AccessLogSpec& spec, spec::LogFormat format) {
  const int descriptor = open_file(spec.file);
  const int error = errno;
  if (descriptor < 0 && !is_unread_pipe(spec.file, error))
    return fail(ErrorCode::kInvalidArgument, fmt::format("access_log: {}: {}", spec.file, std::strerror(error)));
  if (descriptor < 0)
    telemetry::log_warning("access_log", fmt::format("{}: nobody reads this pipe; {} lines at most wait for a reader",
                                                     spec.file, kMostWaiting));
  return std::unique_ptr<AccessLog>(new AccessLog(spec.file, format, descriptor));
}

AccessLog::AccessLog(std::string file, spec::LogFormat format, int descriptor)
    : file_(std::move(file)), format_(format), descriptor_(descriptor) {
  thread_ = std::thread([this] { run(); });
}

AccessLog::~AccessLog() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    give_up_at_ = net::now() + kLastPatience;
  }
  woken_.notify_one();
  thread_.join();
  if (!is_stream(file_) && descriptor_ >= 0) ::close(descriptor_);
}

void AccessLog::add(std::shared_ptr<const RequestReport> report) {
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++counters_.dropped;
      return;
    }
    wake = waiting_.empty();
    waiting_.push_back(std::move(report));
  }
  if (wake) woken_.notify_one();
}

AccessLog::Counters AccessLog::counters() const {
  const std::scoped_lock lock(mutex_);
  Counters counters = counters_;
  counters.waiting = waiting_.size();
  return counters;
}

void AccessLog::run() {
  std::vector<std::shared_ptr<const RequestReport>> batch;
  WarningGate gate;
  while (await_work()) {
    reopen_if_rotated();
    if (descriptor_ < 0) continue;
    {
      const std::scoped_lock lock(mutex_);
      std::swap(batch, waiting_);
    }
    const double offset = net::unix_seconds() - to_seconds(net::now().time_since_epoch());
    std::string text(is_torn_ ? "\n" : "");  // so that a line behind half a one is whole
    for (const auto& report : batch)
      text += access_line(*report, format_, offset + to_seconds(report->ended.time_since_epoch()));
    std::string_view rest = text;
    const Result<void> written = write_all(rest);
    if (!written && gate.pass(net::now()))
      telemetry::log_warning("access_log", fmt::format("{}: {}", file_, written.error().message));
    const std::scoped_lock lock(mutex_);
    const auto lost = std::min(static_cast<std::size_t>(std::ranges::count(rest, '\n')), batch.size());
    counters_.lines += batch.size() - lost;
    counters_.failures += lost;
    batch.clear();
  }
}

/// Waits until there is something to write or, if nobody reads the pipe, until it is time to look again. Returns false
/// at the end.
bool AccessLog::await_work() {
  std::unique_lock lock(mutex_);
  if (descriptor_ < 0 && !waiting_.empty()) woken_.wait_for(lock, kLookEvery, [this] { return stopping_; });
  woken_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
  if (waiting_.empty()) return false;
  if (!stopping_ || descriptor_ >= 0) return true;
  counters_.failures += waiting_.size();
  return false;
}

void AccessLog::reopen_if_rotated() {
  if (is_stream(file_) || (looked_ != TimePoint{} && net::now() - looked_ < kLookEvery)) return;
  looked_ = net::now();
  struct stat named{};
  struct stat open{};
  const bool same = descriptor_ >= 0 && ::stat(file_.c_str(), &named) == 0 && ::fstat(descriptor_, &open) == 0 &&
                    named.st_ino == open.st_ino && named.st_dev == open.st_dev;
  if (same) return;
  const int fresh = open_file(file_);
  if (fresh < 0) return;  // better the old file than none
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = fresh;
  is_torn_ = false;
}

// A pipe is written to only as far as it has room: a blocked write would outlast the gateway.
Result<void> AccessLog::write_all(std::string_view& text) {
  struct stat open{};
  const bool is_file = ::fstat(descriptor_, &open) == 0 && S_ISREG(open.st_mode);
  while (!text.empty()) {
    if (!is_file && is_out_of_time()) return fail(ErrorCode::kUnavailable, "whoever reads the pipe is too slow");
    pollfd ready{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    constexpr auto kPatienceMs = static_cast<int>(kPatience / std::chrono::milliseconds(1));
    if (!is_file && ::poll(&ready, 1, kPatienceMs) == 0)
      return fail(ErrorCode::kUnavailable, "the pipe is full, and nobody reads it");
    const std::size_t most = is_file ? text.size() : std::min<std::size_t>(text.size(), PIPE_BUF);
    const ssize_t written = ::write(descriptor_, text.data(), most);
    if (written > 0) {
      is_torn_ = text[static_cast<std::size_t>(written) - 1] != '\n';
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      return fail(ErrorCode::kUnavailable, std::strerror(errno));
    }
  }
  return {};
}

bool AccessLog::is_out_of_time() const {
  const std::scoped_lock lock(mutex_);
  return stopping_ && net::now() >= give_up_at_;
}

}  // namespace kvist::gateway
