// A numbered publish stream over ZeroMQ with replay of the last messages: frames [topic, sequence u64 BE, payload].
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kvist/base/error.h"

namespace kvist::net {

struct ZmqPublisherOptions {
  std::string endpoint;         ///< PUB, bound: "tcp://127.0.0.1:0" takes any free port
  std::string replay_endpoint;  ///< ROUTER, bound; empty: no replay
  std::string topic;
  std::uint32_t buffer_messages = 10'000;  ///< kept for replay
  int high_water_mark = 100'000;           ///< unsent messages per subscriber before ZeroMQ drops
};

/// publish() may be called from one thread, any; replay requests are answered by a thread of its own. Numbers start at
/// 0.
class ZmqPublisher {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqPublisher>> bind(ZmqPublisherOptions options);
  virtual ~ZmqPublisher() = default;
  /// Queues one message and returns its number. Never blocks on slow subscribers.
  virtual std::uint64_t publish(std::string payload) = 0;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint16_t replay_port() const = 0;
};

}  // namespace kvist::net
