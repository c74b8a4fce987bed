// What one model's routing tells the other gateways and hears from them.
#pragma once

#include "kvist/gateway/index_exchange.h"
#include "kvist/gateway/model_parts.h"
#include "kvist/gateway/peer_link.h"
#include "kvist/net/event_loop.h"
#include "kvist/peering/load_exchange.h"

namespace kvist::gateway {

/// Drives peering's LoadExchange by the loop's time and the link's messages, and tells the IndexExchange which gateways
/// are heard. Says goodbye at its end. Threads: the loop's.
class PeerExchange {
 public:
  /// Requires: all outlive this object; no request is at a worker.
  PeerExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts);
  ~PeerExchange();
  PeerExchange(const PeerExchange&) = delete;
  PeerExchange& operator=(const PeerExchange&) = delete;

  [[nodiscard]] const peering::LoadExchange& load() const { return load_; }
  [[nodiscard]] const IndexExchange& index() const { return index_; }

 private:
  void say();
  void arm(TimePoint now);
  void tell_index();

  PeerLink* link_;
  peering::LoadExchange load_;
  IndexExchange index_;
  PeerLink::Listener listener_;
  std::size_t last_peers_ = 0;  // as last logged
  net::Timer timer_;
};

}  // namespace kvist::gateway
