// The engine on an event loop: a timer drives its steps, its KV events go out over ZeroMQ.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kvist/base/error.h"
#include "kvist/engine/driver.h"
#include "kvist/engine/request.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/zmq_publisher.h"

namespace kvist::worker {

/// How requests have ended so far.
struct FinishCounts {
  std::uint64_t stop = 0;
  std::uint64_t length = 0;
  std::uint64_t aborted = 0;
};

/// Owns driver and publisher. Loop thread only. At the end of a step its KV events are published before its tokens are
/// handed on: who has seen an answer's tokens can know the blocks that they came from.
class EngineRunner {
 public:
  EngineRunner(net::EventLoop& loop, std::unique_ptr<engine::Driver> driver,
               std::unique_ptr<net::ZmqPublisher> publisher);
  EngineRunner(const EngineRunner&) = delete;
  EngineRunner& operator=(const EngineRunner&) = delete;

  /// Log probabilities of an output's tokens: empty where the request did not ask.
  using Logprobs = std::span<const engine::TokenLogprobs>;
  using OutputHandler = std::function<void(const engine::RequestOutput&, Logprobs)>;
  /// Receives every output, also those of requests that were aborted.
  void set_output_handler(OutputHandler handler) { on_output_ = std::move(handler); }

  /// An idle engine begins its next step only after the input that is ready now has been handled: requests that arrive
  /// together are computed together.
  [[nodiscard]] Result<void> submit(engine::Request request);
  void abort(RequestId id);
  /// False, and nothing happens, while requests are running. The event is published before this returns.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] const engine::Driver& driver() const { return *driver_; }
  [[nodiscard]] const net::ZmqPublisher& publisher() const { return *publisher_; }
  [[nodiscard]] const FinishCounts& finish_counts() const { return finish_counts_; }
  [[nodiscard]] std::uint64_t event_batches() const { return event_batches_; }

 private:
  void wake();
  void run();
  void publish(std::vector<kv::KvEvent>& events);
  void count(const engine::RequestOutput& output);

  net::EventLoop* loop_;
  std::unique_ptr<engine::Driver> driver_;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  net::Timer timer_;
  OutputHandler on_output_;
  engine::StepOutputs outputs_;  // of one run(); a member to keep its memory
  FinishCounts finish_counts_;
  std::uint64_t event_batches_ = 0;
  bool wake_posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // posted work may outlive this object
};

}  // namespace kvist::worker
