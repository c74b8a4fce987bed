#include "kvist/gateway/peer_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {

PeerExchange::PeerExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts)
    : link_(&link),
      load_({.gateway = link.name(), .run = link.run(), .patience = link.patience()}, parts.router, parts.fleet),
      timer_(loop) {
  listener_ = {.model = peer_key(parts.spec.model),
               .on_message = [this](std::span<const std::uint8_t> bytes) { load_.on_message(bytes, net::now()); },
               .on_connected =
                   [this] {
                     load_.repeat();
                     arm(net::now());
                   }};
  link_->add(&listener_);
  load_.on_news([this] { arm(net::now()); });
  arm(net::now());
}

PeerExchange::~PeerExchange() {
  link_->remove(&listener_);
  link_->send(listener_.model, load_.goodbye());
}

void PeerExchange::arm(TimePoint now) {
  timer_.arm(load_.due(now), [this] { say(); });
}

void PeerExchange::say() {
  const TimePoint now = net::now();
  for (const std::string& message : load_.take(now)) link_->send(listener_.model, message);
  if (const std::size_t before = std::exchange(last_peers_, load_.peers().size()); before != last_peers_)
    telemetry::log_info("peers", fmt::format("{} other gateways are heard, {} before", last_peers_, before));
  arm(now);
}

}  // namespace kvist::gateway
