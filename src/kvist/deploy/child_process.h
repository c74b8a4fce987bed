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
  std::string executable;              ///< path; not searched for
  std::vector<std::string> arguments;  ///< without the program's own name
  std::string log_path;                ///< standard error goes here
  std::vector<std::string> unset;      ///< environment variables it must not inherit
};

/// Owns a running child; destroying it ends the child. The child has no standard input, its standard output is read by
/// read_line(), it sits in a process group of its own (Ctrl-C in a terminal reaches only the parent, which ends its
/// children in order), and the kernel kills it if the thread that started it dies: start it on a thread that lives as
/// long. One thread at a time.
class ChildProcess {
 public:
  [[nodiscard]] static Result<ChildProcess> start(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// The next line of its standard output, without the line break. If the child ends first, or is not heard of in
  /// time, the error says how and quotes the end of its log.
  [[nodiscard]] Result<std::string> read_line(const Until& until);

  /// An error with the end of the log where the child has ended.
  [[nodiscard]] Result<void> check_running();
  /// Asks it to end (SIGTERM). Does not wait.
  void terminate();
  /// Waits for the end until `deadline`, then kills it. "exit status 0", "signal 9": how it ended.
  std::string wait(TimePoint deadline);

  /// The last lines of the log.
  [[nodiscard]] std::string log_tail() const;

 private:
  ChildProcess() = default;
  /// Collects the exit status if there is one.
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
