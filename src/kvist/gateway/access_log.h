// Writes the access log, beside the loops.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/gateway/request_report.h"
#include "kvist/spec/observation_spec.h"

namespace kvist::gateway {

/// Appends a line per request to a file, on a thread of its own, so that a slow disk or a full pipe holds up nobody.
/// When the file is no longer what its name leads to, because it was rotated, a new one is made. A named pipe that
/// nobody reads yet is opened when somebody does; until then the requests wait. Memory: at most kMostWaiting requests
/// wait; further ones are dropped and counted. Threads: add() and counters(): any.
class AccessLog {
 public:
  static constexpr std::size_t kMostWaiting = 16'384;

  struct Counters {
    std::uint64_t lines = 0;
    std::uint64_t dropped = 0;   ///< because too many waited
    std::uint64_t failures = 0;  ///< lines that could not be written, or not to their ends
    std::size_t waiting = 0;
  };

  /// Opens the file. Errors: it cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<AccessLog>> open(const spec::AccessLogSpec& spec, spec::LogFormat format);
  /// Writes what waits; into a pipe only what the pipe takes within two seconds.
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void add(std::shared_ptr<const RequestReport> report);
  [[nodiscard]] Counters counters() const;

 private:
  AccessLog(std::string file, spec::LogFormat format, int descriptor);
  void run();
  [[nodiscard]] bool await_work();
  void reopen_if_rotated();
  /// Removes from `text` what was written.
  [[nodiscard]] Result<void> write_all(std::string_view& text);
  [[nodiscard]] bool is_out_of_time() const;

  const std::string file_;
  const spec::LogFormat format_;
  int descriptor_;  // its thread's, as the next two; -1: a pipe that nobody reads
  TimePoint looked_ = {};
  bool is_torn_ = false;  // the last line that was written has no end

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable woken_;
  std::vector<std::shared_ptr<const RequestReport>> waiting_;
  Counters counters_;
  bool stopping_ = false;
  TimePoint give_up_at_ = {};  // once stopping_

  std::thread thread_;
};

}  // namespace kvist::gateway
