// Private to net: the connections of one subscription and what comes out of them.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/loop_impl.h"
#include "kvist/net/zmq_subscriber.h"
#include "kvist/net/zmtp_channel.h"

namespace kvist::net {

/// Speaks ZeroMQ's protocol itself, because libzmq's sockets give a publisher up for ever after a protocol error, keep
/// the frames of an unfinished message without a bound, and notice a host that fell silent late. Threads: made by any
/// thread, then handed to the loop's by EventLoop::post(); that thread makes all further calls and destroys it.
class ZmqSubscription {
 public:
  /// Returns an error if an endpoint is invalid, or its port is taken.
  [[nodiscard]] static Result<std::unique_ptr<ZmqSubscription>> open(const ZmqSubscriberOptions& options,
                                                                     ZmqSubscriberHandlers handlers);
  ~ZmqSubscription();
  ZmqSubscription(const ZmqSubscription&) = delete;
  ZmqSubscription& operator=(const ZmqSubscription&) = delete;

  /// Connects, and reads from now on.
  void start(LoopImpl& loop);
  void request_replay(std::uint64_t sequence);

 private:
  explicit ZmqSubscription(ZmqSubscriberHandlers handlers) : handlers_(std::move(handlers)) {}
  void take_live(ZmtpMessage& frames) const;
  void take_replayed(ZmtpMessage& frames) const;
  void report_malformed(const char* what, const ZmtpMessage& frames) const;

  const ZmqSubscriberHandlers handlers_;
  std::shared_ptr<ZmtpChannel> live_;
  std::shared_ptr<ZmtpChannel> replay_;  // null: no replay
};

}  // namespace kvist::net
