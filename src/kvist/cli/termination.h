// Ctrl-C and SIGTERM as a stop token, for commands whose main thread blocks.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

#include "kvist/net/event_loop.h"

namespace kvist::cli {

/// Keeps what a command has measured when its terminal, or the reader of its output, goes away: SIGHUP calls `end` on
/// the loop, unless it is ignored (nohup), and writing to a closed pipe does not end the process.
void outlive_terminal(net::EventLoop& loop, std::function<void()> end);

/// During its lifetime, SIGINT, SIGTERM and SIGHUP (outlive_terminal()) request the stop instead of ending the process.
/// A thread of its own waits for them.
class Termination {
 public:
  Termination();
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  net::EventLoop loop_;
  std::thread thread_;
};

}  // namespace kvist::cli
