// A stream of numbered messages over ZeroMQ, with a replay of the last ones. A message has three frames: topic,
// sequence number (64 bits, big-endian) and payload.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kvist/base/error.h"

namespace kvist::net {

/// Makes one message of those that a replay buffer no longer has, so that who asks for them misses nothing. Threads:
/// the publisher's replay thread.
class ReplayCompaction {
 public:
  virtual ~ReplayCompaction() = default;
  /// The next payload, in the order of the numbers.
  virtual void take(const std::string& payload) = 0;
  /// A payload that has the effect of all that were taken; empty: there is none.
  [[nodiscard]] virtual std::string message() const = 0;
};

struct ZmqPublisherOptions {
  std::string endpoint;         ///< PUB, bound: "tcp://127.0.0.1:0" takes any free port
  std::string replay_endpoint;  ///< ROUTER, bound; empty: no replay
  std::string topic;
  std::uint32_t buffer_messages = 10'000;  ///< kept for replay
  int high_water_mark = 100'000;           ///< unsent messages per subscriber before ZeroMQ drops
  /// A replay from before the buffer's oldest message begins with its message, under the number of the last that it
  /// stands for. Null: those messages are missing.
  std::unique_ptr<ReplayCompaction> compaction = nullptr;
};

/// Publishes messages with the numbers 0, 1 and so on. Threads: any; replay requests are answered by a thread of its
/// own.
class ZmqPublisher {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqPublisher>> bind(ZmqPublisherOptions options);
  virtual ~ZmqPublisher() = default;
  /// Queues one message and returns its number. Never waits for slow subscribers.
  virtual std::uint64_t publish(std::string payload) = 0;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// 0 if there is no replay.
  [[nodiscard]] virtual std::uint16_t replay_port() const = 0;
};

}  // namespace kvist::net
