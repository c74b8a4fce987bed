// Private to net: what an EventLoop is made of, and the Asio types bound to its executor.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"

namespace kvist::net {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;
using LoopExecutor = asio::io_context::executor_type;
// Bound to the loop's own executor type: the default, any_io_executor, costs a virtual call and a copy per operation.
using Socket = asio::basic_stream_socket<Tcp, LoopExecutor>;
using SteadyTimer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, LoopExecutor>;

[[nodiscard]] inline std::chrono::steady_clock::time_point to_steady(TimePoint when) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(when.time_since_epoch()));
}

/// The loop's io_context with what keeps it running. Member order matters: `io` goes last to be destroyed.
class LoopImpl {
 public:
  LoopImpl() : io(1), work(io.get_executor()) {}
  ~LoopImpl() { ending = true; }
  LoopImpl(const LoopImpl&) = delete;
  LoopImpl& operator=(const LoopImpl&) = delete;

  bool ending = false;  ///< destruction has begun: objects dying inside queued handlers must not start anything
  asio::io_context io;
  asio::executor_work_guard<LoopExecutor> work;
  std::optional<asio::signal_set> signals;
  std::vector<std::function<void()>> termination_handlers;
  bool terminated = false;
};

}  // namespace kvist::net
