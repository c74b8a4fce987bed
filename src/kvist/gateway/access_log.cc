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

bool is_stream(const std::string& file) {
  return file == "stderr" || file == "stdout";
}

int open_file(const std::string& file) {
  if (file == "stderr") return STDERR_FILENO;
  if (file == "stdout") return STDOUT_FILENO;
  return ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
}

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::open(const spec::AccessLogSpec& spec, spec::LogFormat format) {
  const int descriptor = open_file(spec.file);
  if (descriptor < 0)
    return fail(ErrorCode::kInvalidArgument, fmt::format("access_log: {}: {}", spec.file, std::strerror(errno)));
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
  while (true) {
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      std::swap(batch, waiting_);
    }
    reopen_if_rotated();
    const double offset = net::unix_seconds() - to_seconds(net::now().time_since_epoch());
    std::string text;
    for (const auto& report : batch)
      text += access_line(*report, format_, offset + to_seconds(report->ended.time_since_epoch()));
    const bool written = write_all(text);
    if (!written && gate.pass(net::now()))
      telemetry::log_warning("access_log", fmt::format("{}: {}", file_, std::strerror(errno)));
    const std::scoped_lock lock(mutex_);
    (written ? counters_.lines : counters_.failures) += batch.size();
    batch.clear();
  }
}

void AccessLog::reopen_if_rotated() {
  constexpr Duration kEvery = std::chrono::seconds(1);
  if (is_stream(file_) || net::now() - looked_ < kEvery) return;
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
}

// A pipe is written to only as far as it has room: a blocked write would outlast the gateway.
bool AccessLog::write_all(std::string_view text) {
  struct stat open{};
  const bool is_file = ::fstat(descriptor_, &open) == 0 && S_ISREG(open.st_mode);
  while (!text.empty()) {
    pollfd ready{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    constexpr int kPatienceMs = 1'000;
    if (!is_file && ::poll(&ready, 1, kPatienceMs) == 0) return false;
    const std::size_t most = is_file ? text.size() : std::min<std::size_t>(text.size(), PIPE_BUF);
    const ssize_t written = ::write(descriptor_, text.data(), most);
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno != EINTR && errno != EAGAIN) return false;
  }
  return true;
}

}  // namespace kvist::gateway
