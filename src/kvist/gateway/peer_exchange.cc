#include "kvist/gateway/peer_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/telemetry/log.h"

namespace kvist::gateway {

PeerExchange::PeerExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts)
    : link_(&link),
      load_({.gateway = link.name(), .run = link.run(), .patience = link.patience()}, parts.router, parts.fleet),
      index_(loop, link, parts),
      timer_(loop) {
  listener_ = {.model = peer_key(parts.spec.model),
               .on_message =
                   [this](std::span<const std::uint8_t> bytes) {
                     const std::size_t before = load_.peers().size();
                     load_.on_message(bytes, net::now());
                     if (load_.peers().size() != before) tell_index();
                   },
               .on_connected =
                   [this] {
                     load_.repeat();
                     arm(net::now());
                   },
               .on_request = [this](std::span<const std::uint8_t> bytes,
                                    const std::string& reply_to) { index_.on_request(bytes, reply_to); },
               .on_answer = [this](std::span<const std::uint8_t> bytes) { index_.on_answer(bytes); }};
  load_.share_refusals(parts.dispatcher.admission());
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

void PeerExchange::tell_index() {
  std::vector<std::string> names;
  for (const peering::PeerTable::Peer& peer : load_.peers().peers()) names.push_back(peer.name);
  index_.set_gateways(std::move(names));
}

void PeerExchange::say() {
  const TimePoint now = net::now();
  for (const std::string& message : load_.take(now)) link_->send(listener_.model, message);
  if (const std::size_t before = std::exchange(last_peers_, load_.peers().size()); before != last_peers_) {
    telemetry::log_info("peers", fmt::format("{} other gateways are heard, {} before", last_peers_, before));
    tell_index();
  }
  arm(now);
}

}  // namespace kvist::gateway
