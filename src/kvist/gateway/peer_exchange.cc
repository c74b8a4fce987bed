#include "kvist/gateway/peer_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {

PeerExchange::PeerExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts)
    : link_(&link),
      teller_(link.name(), link.run(), {}, parts.router, parts.fleet),
      peers_(link.name(), link.patience(), parts.router, parts.fleet),
      timer_(loop) {
  listener_ = {.model = peer_key(parts.spec.model),
               .on_message =
                   [this](std::span<const std::uint8_t> bytes) {
                     // One that has not heard of this gateway yet is to know everything now.
                     if (!peers_.on_message(bytes, net::now())) return;
                     teller_.repeat();
                     arm(net::now());
                   },
               .on_connected =
                   [this] {
                     teller_.repeat();
                     arm(net::now());
                   }};
  link_->add(&listener_);
  teller_.on_news([this] { arm(net::now()); });
  arm(net::now());
}

PeerExchange::~PeerExchange() {
  link_->remove(&listener_);
  link_->send(listener_.model, teller_.goodbye());
}

void PeerExchange::arm(TimePoint now) {
  timer_.arm(teller_.due(now), [this] { say(); });
}

void PeerExchange::say() {
  const TimePoint now = net::now();
  peers_.expire(now);
  if (const std::size_t before = std::exchange(last_peers_, peers_.size()); before != last_peers_)
    telemetry::log_info("peers", fmt::format("{} other gateways are heard, {} before", last_peers_, before));
  if (teller_.due(now) <= now)
    for (const std::string& message : teller_.take(now)) link_->send(listener_.model, message);
  arm(now);
}

}  // namespace kvist::gateway
