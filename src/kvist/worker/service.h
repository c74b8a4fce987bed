// The worker as a service: an engine behind the OpenAI API, with KV events and metrics.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::worker {

/// Engine core, timers and HTTP run on the loop's thread; ZeroMQ sends KV events from a thread of its own.
class Service {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, spec::WorkerSpec spec);
  virtual ~Service() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// The port of paths that change the worker or show its inside.
  [[nodiscard]] virtual std::uint16_t admin_port() const = 0;
  [[nodiscard]] virtual std::uint16_t kv_events_port() const = 0;
  [[nodiscard]] virtual std::uint16_t kv_replay_port() const = 0;
  /// Refuses new requests and ends running ones with an error; then the loop may be stopped.
  virtual void shut_down() = 0;
};

}  // namespace kvist::worker
