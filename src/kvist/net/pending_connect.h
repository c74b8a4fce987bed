// Private to net: a socket that is being connected.
#pragma once

#include <functional>
#include <utility>

#include "kvist/net/loop_impl.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// Waits until the socket is connected, or cannot be: connect_error() tells. Threads: the loop's.
class PendingConnect final : public Watched {
 public:
  /// `then` may destroy this object.
  PendingConnect(LoopImpl& loop, UniqueFd socket, std::function<void(UniqueFd)> then)
      : Watched(loop), socket_(std::move(socket)), then_(std::move(then)) {
    watch(socket_.get());
  }
  ~PendingConnect() override { forget(); }
  PendingConnect(const PendingConnect&) = delete;
  PendingConnect& operator=(const PendingConnect&) = delete;

 private:
  void on_ready() override {
    if (!writable_ && !hung_up_) return;
    forget();
    const auto then = std::move(then_);
    then(std::move(socket_));
  }

  UniqueFd socket_;
  std::function<void(UniqueFd)> then_;
};

}  // namespace kvist::net
