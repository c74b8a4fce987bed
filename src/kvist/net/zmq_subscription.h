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

/// Threads: made by any thread, then handed to the loop's, which does the rest and destroys it. (A ZeroMQ socket may
/// go from thread to thread across a lock, as EventLoop::post has one.)
class ZmqSubscription {
 public:
  static constexpr std::size_t kSockets = 4;  ///< live, replay, and the two ends of the monitor

  /// Throws zmq::error_t. `number` tells it from the others of its context.
  ZmqSubscription(zmq::context_t& context, ZmqSubscriberOptions options, ZmqSubscriberHandlers handlers,
                  std::uint64_t number);
  ~ZmqSubscription();
  ZmqSubscription(const ZmqSubscription&) = delete;
  ZmqSubscription& operator=(const ZmqSubscription&) = delete;

  /// From here on the loop reads it.
  void start(LoopImpl& loop);
  void request_replay(std::uint64_t sequence);

 private:
  class Channel;

  void prepare(zmq::socket_t& socket, const std::string& endpoint) const;
  // Each handles what waits, up to a bound; true: more may wait.
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
