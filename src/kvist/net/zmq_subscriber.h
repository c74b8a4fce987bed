// The receiving side: one subscription with its replay channel, read by a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kvist/base/error.h"

namespace kvist::net {

struct ZmqSubscriberOptions {
  std::string endpoint;         ///< "tcp://host:port": connects; with '*': binds
  std::string replay_endpoint;  ///< empty: no replay
  std::string topic;
  int high_water_mark = 100'000;
};

/// What came in. Called on the subscriber's own thread: hand over to a loop by EventLoop::post.
struct ZmqSubscriberHandlers {
  std::function<void()> on_connected;     ///< the transport (re)connected
  std::function<void()> on_disconnected;  ///< the transport lost its peer; it goes on trying to reach it
  std::function<void(std::uint64_t sequence, std::string payload)> on_live;
  std::function<void(std::uint64_t sequence, std::string payload)> on_replayed;
  std::function<void()> on_replay_end;
  std::function<void(std::string what)> on_malformed;  ///< frames that are no message of this form
};

class ZmqSubscriber {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ZmqSubscriber>> connect(ZmqSubscriberOptions options,
                                                                      ZmqSubscriberHandlers handlers);
  virtual ~ZmqSubscriber() = default;  ///< ends the thread; no handler runs afterwards
  /// Asks for all buffered messages from `sequence` on. Thread-safe.
  virtual void request_replay(std::uint64_t sequence) = 0;
};

}  // namespace kvist::net
