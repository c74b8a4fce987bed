// The receiving side of a ZmqPublisher's stream: one subscription with its replay channel.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kvist::net {

struct ZmqSubscriberOptions {
  std::string endpoint;         ///< "tcp://host:port" or "ipc:///path": connects; "tcp://*:port": listens
  std::string replay_endpoint;  ///< empty: no replay
  std::string topic;            ///< messages whose topic begins with it; empty: all
};

/// Called for what came in. Threads: the receiver's. It reads all subscriptions, so a handler should do little, or hand
/// the work over to a loop by EventLoop::post().
struct ZmqSubscriberHandlers {
  std::function<void()> on_connected;  ///< (again) connected, and the handshake is over
  /// The publisher is lost, or silent, or did not keep to the protocol. It is tried again and again.
  std::function<void(std::string why)> on_disconnected;
  std::function<void(std::uint64_t sequence, std::string payload)> on_live;
  std::function<void(std::uint64_t sequence, std::string payload)> on_replayed;
  std::function<void()> on_replay_end;
  /// A message that is not of a publisher's form was dropped, or a connection that did not keep to the protocol.
  std::function<void(std::string what)> on_malformed;
  /// An attempt to connect came to nothing; the next one follows.
  std::function<void(std::string why)> on_unreachable = {};
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
