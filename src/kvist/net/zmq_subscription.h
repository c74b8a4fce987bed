// Private to net: the sockets of one subscription and what comes out of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvist/net/loop_impl.h"
#include "kvist/net/zmq_frames.h"
#include "kvist/net/zmq_subscriber.h"

namespace kvist::net {

/// Threads: made by any thread, then handed to the loop's by EventLoop::post(); that thread makes all further calls and
/// destroys it. (A ZeroMQ socket may go from thread to thread across a lock, and post() has one.)
class ZmqSubscription {
 public:
  static constexpr std::size_t kSockets = 4;  ///< live, replay, and the two ends of the monitor

  /// Throws zmq::error_t. Requires: no other subscription of the context has this `number`.
  ZmqSubscription(zmq::context_t& context, ZmqSubscriberOptions options, ZmqSubscriberHandlers handlers,
                  std::uint64_t number);
  ~ZmqSubscription();
  ZmqSubscription(const ZmqSubscription&) = delete;
  ZmqSubscription& operator=(const ZmqSubscription&) = delete;

  /// Lets the loop read the sockets from now on.
  void start(LoopImpl& loop);
  void request_replay(std::uint64_t sequence);

 private:
  class Channel;

  void prepare(zmq::socket_t& socket, const std::string& endpoint) const;
  // Each handles the messages that wait, up to a bound, and returns whether more may wait.
  [[nodiscard]] bool read_monitor();
  [[nodiscard]] bool read_live();
  [[nodiscard]] bool read_replay();

  const ZmqSubscriberOptions options_;
  const ZmqSubscriberHandlers handlers_;
  zmq::socket_t live_;
  zmq::socket_t replay_;
  zmq::socket_t monitor_;
  std::vector<std::unique_ptr<Channel>> channels_;
  Channel* replay_channel_ = nullptr;
};

}  // namespace kvist::net
