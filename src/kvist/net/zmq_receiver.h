// All ZeroMQ subscriptions of a process: one context and one thread, however many there are.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/zmq_subscriber.h"

namespace kvist::net {

/// Reads all subscriptions that are made with it. It has three threads: one that reads and calls their handlers, and
/// two of ZeroMQ's. A subscription takes four ZeroMQ sockets and, connected, six descriptors.
///
/// Threads: subscribe() may be called from any. It ends with its last owner, which must not be one of the handlers;
/// each subscription is an owner.
class ZmqReceiver {
 public:
  static constexpr std::size_t kMostSubscriptions = 8'192;
  static constexpr std::size_t kDescriptors = 6;  ///< of one subscription with replay

  [[nodiscard]] static Result<std::shared_ptr<ZmqReceiver>> create();
  virtual ~ZmqReceiver() = default;
  /// The error says what is wrong with an endpoint, or which bound is reached: that on subscriptions, or the system's
  /// on descriptors.
  [[nodiscard]] virtual Result<std::unique_ptr<ZmqSubscriber>> subscribe(ZmqSubscriberOptions options,
                                                                         ZmqSubscriberHandlers handlers) = 0;
};

}  // namespace kvist::net
