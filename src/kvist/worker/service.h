// The worker as a service: an engine behind the OpenAI API, with KV events and metrics.
#pragma once

#include <cstdint>
#include <functional>
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
  /// Reads its keys and certificates again, soon. What is not good changes nothing. Threads: the loop's.
  virtual void reload() = 0;
  /// From here on /health answers 503 and new requests are refused; the listeners stay open, so that both are seen.
  /// Those under way have `drain_timeout` to end, then they end with an error. When none is left, it calls `done`, now
  /// or later; then the loop may be stopped. Requires: it is called once. Threads: the loop's.
  virtual void shut_down(std::function<void()> done = {}) = 0;
  /// Ends what is under way now. Requires: shut_down() was called. Threads: the loop's.
  virtual void end_now() = 0;
};

}  // namespace kvist::worker
