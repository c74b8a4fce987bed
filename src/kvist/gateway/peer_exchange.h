// What one model's routing tells the other gateways and hears from them.
#pragma once

#include "kvist/gateway/model_parts.h"
#include "kvist/gateway/peer_link.h"
#include "kvist/net/event_loop.h"
#include "kvist/peering/load_exchange.h"

namespace kvist::gateway {

/// Drives peering's LoadExchange by the loop's time and the link's messages. Says goodbye at its end.
/// Threads: the loop's.
class PeerExchange {
 public:
  /// Requires: all outlive this object; no request is at a worker.
  PeerExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts);
  ~PeerExchange();
  PeerExchange(const PeerExchange&) = delete;
  PeerExchange& operator=(const PeerExchange&) = delete;

  [[nodiscard]] const peering::LoadExchange& load() const { return load_; }

 private:
  void say();
  void arm(TimePoint now);

  PeerLink* link_;
  peering::LoadExchange load_;
  PeerLink::Listener listener_;
  std::size_t last_peers_ = 0;  // as last logged
  net::Timer timer_;
};

}  // namespace kvist::gateway
