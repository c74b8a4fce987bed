// Ctrl-C and SIGTERM as a stop token, for commands whose main thread blocks.
#pragma once

#include <stop_token>
#include <thread>

#include "kvist/net/event_loop.h"

namespace kvist::cli {

/// During its lifetime, SIGINT and SIGTERM request the stop instead of ending the process. A thread of its own waits
/// for them.
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
