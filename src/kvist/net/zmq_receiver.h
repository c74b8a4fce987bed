// All ZeroMQ subscriptions of a process: one thread, however many there are.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/zmq_subscriber.h"

namespace kvist::net {

/// Reads all subscriptions that are made with it, on a thread of its own, which calls the handlers. A subscription
/// takes two file descriptors. What publishers send is bounded before it is kept (ZmtpLimits), whatever they send ends
/// at most their connection, and one that falls silent is noticed within seconds (Heartbeat).
///
/// Each subscription is an owner of its receiver, which ends with its last owner. Requires: no handler releases the
/// last owner. Threads: subscribe() may be called from any.
class ZmqReceiver {
 public:
  static constexpr std::size_t kMostSubscriptions = 8'192;
  static constexpr std::size_t kDescriptors = 2;  ///< of one subscription with replay

  [[nodiscard]] static std::shared_ptr<ZmqReceiver> create();
  virtual ~ZmqReceiver() = default;
  /// Returns an error if an endpoint is invalid, or if a limit is reached: kMostSubscriptions, or the system's limit of
  /// file descriptors.
  [[nodiscard]] virtual Result<std::unique_ptr<ZmqSubscriber>> subscribe(ZmqSubscriberOptions options,
                                                                         ZmqSubscriberHandlers handlers) = 0;
};

}  // namespace kvist::net
