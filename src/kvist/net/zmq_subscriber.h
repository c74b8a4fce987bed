// The receiving side of a numbered publish stream: one subscription with its replay channel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvist::net {

struct ZmqSubscriberOptions {
  std::string endpoint;         ///< "tcp://host:port": connects; with '*': binds
  std::string replay_endpoint;  ///< empty: no replay
  std::string topic;
  int high_water_mark = 100'000;  ///< messages that ZeroMQ keeps while they are not read
};

/// What came in. Called on the receiver's thread, which reads all subscriptions: do little there, or hand over to a
/// loop by EventLoop::post.
struct ZmqSubscriberHandlers {
  std::function<void()> on_connected;     ///< the transport (re)connected
  std::function<void()> on_disconnected;  ///< the transport lost its peer; it goes on trying to reach it
  std::function<void(std::uint64_t sequence, std::string payload)> on_live;
  std::function<void(std::uint64_t sequence, std::string payload)> on_replayed;
  std::function<void()> on_replay_end;
  std::function<void(std::string what)> on_malformed;  ///< frames that are no message of this form
};

/// Made by ZmqReceiver::subscribe().
class ZmqSubscriber {
 public:
  /// No handler runs afterwards. Not to be destroyed from one of them.
  virtual ~ZmqSubscriber() = default;
  /// Asks for all buffered messages from `sequence` on. Thread-safe. A request that there is no room for is lost, like
  /// one that the publisher never got.
  virtual void request_replay(std::uint64_t sequence) = 0;
};

}  // namespace kvist::net
