// The worker as a service: an engine behind the OpenAI API, with KV events and metrics.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::worker {

/// Lives on one loop, which runs engine core, timers and HTTP on one thread; KV events leave through a thread of
/// ZeroMQ's.
class Service {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, spec::WorkerSpec spec);
  virtual ~Service() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint16_t kv_events_port() const = 0;
  [[nodiscard]] virtual std::uint16_t kv_replay_port() const = 0;
  /// Refuses new requests and ends running ones with an error; then the loop may be stopped.
  virtual void shut_down() = 0;
};

}  // namespace kvist::worker
