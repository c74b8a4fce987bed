// The receiving side of a ZmqPublisher's stream: one subscription with its replay channel.
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

/// Called for what came in. Threads: the receiver's. It reads all subscriptions, so a handler should do little, or hand
/// the work over to a loop by EventLoop::post().
struct ZmqSubscriberHandlers {
  std::function<void()> on_connected;     ///< the transport (re)connected
  std::function<void()> on_disconnected;  ///< the transport lost its peer, and keeps trying to reach it
  std::function<void(std::uint64_t sequence, std::string payload)> on_live;
  std::function<void(std::uint64_t sequence, std::string payload)> on_replayed;
  std::function<void()> on_replay_end;
  std::function<void(std::string what)> on_malformed;  ///< a message that is not of a publisher's form was dropped
};

/// Made by ZmqReceiver::subscribe().
class ZmqSubscriber {
 public:
  /// Ensures: no handler runs afterwards. Requires: it is not called by a handler.
  virtual ~ZmqSubscriber() = default;
  /// Asks for all buffered messages from `sequence` on. A request for which there is no room is lost, like one that the
  /// publisher never received. Threads: any.
  virtual void request_replay(std::uint64_t sequence) = 0;
};

}  // namespace kvist::net
