// Runs the engine on an event loop: a timer drives its steps, and KV events are published over ZeroMQ.
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
#include "kvist/worker/request_metrics.h"

namespace kvist::worker {

/// Owns driver and publisher. Threads: the loop's. At the end of a step its KV events are published before its tokens
/// are passed on, so that a client which has seen an answer's tokens can know their blocks.
class EngineRunner {
 public:
  /// `max_model_len` is for the metrics.
  EngineRunner(net::EventLoop& loop, std::unique_ptr<engine::Driver> driver,
               std::unique_ptr<net::ZmqPublisher> publisher, std::uint32_t max_model_len);
  EngineRunner(const EngineRunner&) = delete;
  EngineRunner& operator=(const EngineRunner&) = delete;

  /// Log probabilities that come with an output; null if the request did not ask.
  using Logprobs = const engine::SampledLogprobs*;
  using OutputHandler = std::function<void(const engine::RequestOutput&, Logprobs)>;
  /// Sets the handler of all outputs, including those of aborted requests.
  void set_output_handler(OutputHandler handler) { on_output_ = std::move(handler); }

  /// An idle engine begins its next step only after all input that is ready has been handled, so that requests that
  /// arrive together are computed together. `prompt` is the first of the requests that answer the same prompt, possibly
  /// this one.
  [[nodiscard]] Result<void> submit(engine::Request request, RequestId prompt);
  void abort(RequestId id);
  /// Like abort(), but for a request whose answer was ended by a stop string, which the engine does not know.
  void stop(RequestId id);
  /// A request of the present outputs that ended at its limit was ended by a stop string as well, which counts.
  void stopped_at_the_limit() { metrics_.on_stopped_at_the_limit(); }
  /// Returns false and does nothing while requests are running. The event is published before this returns.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] const engine::Driver& driver() const { return *driver_; }
  [[nodiscard]] const net::ZmqPublisher& publisher() const { return *publisher_; }
  [[nodiscard]] const RequestMetrics& metrics() const { return metrics_; }
  [[nodiscard]] std::uint64_t event_batches() const { return event_batches_; }

 private:
  void wake();
  void run();
  void publish(std::vector<kv::KvEvent>& events);

  net::EventLoop* loop_;
  std::unique_ptr<engine::Driver> driver_;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  net::Timer timer_;
  OutputHandler on_output_;
  engine::StepOutputs outputs_;  // of one run(); a member to keep its memory
  RequestMetrics metrics_;
  std::uint64_t event_batches_ = 0;
  bool wake_posted_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // posted work may outlive this object
};

}  // namespace kvist::worker
