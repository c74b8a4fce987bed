// All ZeroMQ subscriptions of a process: one context and one thread, however many there are.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/zmq_subscriber.h"

namespace kvist::net {

/// Reads all subscriptions that are made with it. It has three threads: one that reads and calls the handlers, and two
/// of ZeroMQ's. A subscription takes four ZeroMQ sockets and, once connected, six file descriptors.
///
/// Each subscription is an owner of its receiver, which ends with its last owner. Requires: no handler releases the
/// last owner. Threads: subscribe() may be called from any.
class ZmqReceiver {
 public:
  static constexpr std::size_t kMostSubscriptions = 8'192;
  static constexpr std::size_t kDescriptors = 6;  ///< of one subscription with replay

  [[nodiscard]] static Result<std::shared_ptr<ZmqReceiver>> create();
  virtual ~ZmqReceiver() = default;
  /// Returns an error if an endpoint is invalid, or if a limit is reached: kMostSubscriptions, or the system's limit of
  /// file descriptors.
  [[nodiscard]] virtual Result<std::unique_ptr<ZmqSubscriber>> subscribe(ZmqSubscriberOptions options,
                                                                         ZmqSubscriberHandlers handlers) = 0;
};

}  // namespace kvist::net
