// One process of a deployment, as a child of this one.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/deploy/until.h"

namespace kvist::deploy {

/// How to start a child.
struct ChildOptions {
  std::string name;                    ///< for messages
  std::string executable;              ///< a path; PATH is not searched
  std::vector<std::string> arguments;  ///< without the program's own name
  std::string log_path;                ///< standard error goes here
  std::vector<std::string> unset;      ///< environment variables that it does not inherit
};

/// Owns a running child; the destructor ends it. The child has no standard input, and its standard output is read by
/// read_line(). It is in a process group of its own, so that Ctrl-C in a terminal reaches only the parent, which ends
/// its children in order. The kernel kills the child if the thread that started it ends. Requires: that thread outlives
/// it. Threads: one at a time.
class ChildProcess {
 public:
  [[nodiscard]] static Result<ChildProcess> start(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// The next line of its standard output, without the line break. Errors: the child ended or wrote nothing in time,
  /// with the end of its log.
  [[nodiscard]] Result<std::string> read_line(const Until& until);

  /// Returns an error with the end of the log if the child has ended.
  [[nodiscard]] Result<void> check_running();
  /// Asks it to end (SIGTERM). Does not wait.
  void terminate();
  /// Waits for the end until `deadline`, then kills it. Returns how it ended: "exit status 0", "signal 9".
  std::string wait(TimePoint deadline);

  /// The last lines of the log.
  [[nodiscard]] std::string log_tail() const;

 private:
  ChildProcess() = default;
  /// Collects the exit status if the child has ended.
  bool reap();
  void send(int signal) const;
  [[nodiscard]] Error ended_error() const;

  std::string name_;
  std::string log_path_;
  std::string buffered_;  // output read, not yet a line
  pid_t pid_ = -1;        // -1: moved from
  int output_ = -1;
  std::optional<int> status_;  // of waitpid, once ended
};

}  // namespace kvist::deploy
