#include "kvist/simulation/gateway_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::simulation {
namespace {

/// A gateway that is silent for so long is gone.
constexpr auto kPatience = std::chrono::seconds(3);

std::string gateway_name(std::size_t number) {
  return fmt::format("gateway-{}", number);
}

}  // namespace

GatewayGroup::Exchange::Exchange(std::size_t number, SimulatedGateway& gateway)
    : load({.gateway = gateway_name(number), .run = 1, .patience = kPatience}, gateway.router(), gateway.fleet()) {
  load.share_refusals(gateway.dispatcher().admission());
}

GatewayGroup::GatewayGroup(const spec::SweepSpec& sweep, spec::RoutingMode mode, std::uint64_t run_seed,
                           const DecisionWatch* watch, const tokenizer::Tokenizer& tokenizer, VirtualTime& time,
                           Network& network, Clairvoyance& clairvoyance)
    : spec_(sweep.simulation.gateways),
      run_seed_(run_seed),
      time_(&time),
      network_(&network),
      losses_(mix_seed({run_seed, seed_part("messages between gateways")})) {
  for (std::size_t i = 0; i < spec_.count; ++i) {
    gateways_.push_back(
        std::make_unique<SimulatedGateway>(i, sweep, mode, run_seed, watch, tokenizer, time, network, clairvoyance));
    if (spec_.count == 1 || !spec_.exchange) continue;
    exchanges_.push_back(std::make_unique<Exchange>(i, *gateways_.back()));
    arm(i);
  }
}

std::size_t GatewayGroup::gateway_of(TurnId turn) const {
  if (spec_.count == 1) return 0;
  return mix_seed({run_seed_, seed_part("gateway of a request"), turn.value()}) % spec_.count;
}

void GatewayGroup::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kRequestAtGateway: {
      TurnRequest request = network_->take_request(event);
      const std::size_t to = gateway_of(request.id);
      gateways_[to]->on_request(std::move(request));
      return arm(to);
    }
    case EventKind::kClientGoneAtGateway: {
      const std::size_t to = gateway_of(TurnId(event.subject));
      gateways_[to]->on_client_gone(TurnId(event.subject));
      return arm(to);
    }
    case EventKind::kRefusalAtGateway: {
      Refusal refusal = network_->take_refusal(event);
      const std::size_t to = gateway_of(refusal.turn);
      gateways_[to]->on_refusal(std::move(refusal));
      return arm(to);
    }
    case EventKind::kGatewayDeadline:
      gateways_[event.subject]->on_deadline();
      return arm(event.subject);
    case EventKind::kLookAtHeld:
      gateways_[event.subject]->on_look_at_held();
      return arm(event.subject);
    case EventKind::kStepAtGateway:
      return on_step(event);
    case EventKind::kKvEventsAtGateway:
      for (const auto& gateway : gateways_) gateway->on_kv_events(event.worker, network_->kv_events_of(event));
      return network_->end_kv_events(event);
    case EventKind::kWorkerLostAtGateway:
    case EventKind::kWorkerBackAtGateway:
      for (std::size_t i = 0; i < gateways_.size(); ++i) {
        if (event.kind == EventKind::kWorkerLostAtGateway) gateways_[i]->on_worker_lost(event.worker);
        if (event.kind == EventKind::kWorkerBackAtGateway) gateways_[i]->on_worker_back(event.worker);
        arm(i);
      }
      return;
    case EventKind::kPeersDue:
      return on_peers_due(event.subject);
    case EventKind::kPeerMessage:
      return on_peer_message(network_->take_peer_message(event));
    default:
      KVIST_CHECK(false, "an event for gateways");
  }
}

void GatewayGroup::on_health_check(const Event& event, bool well) {
  gateways_[event.subject]->on_health_check(event.worker, well);
}

// A worker's step is one event for all of its answers, which are several gateways'.
void GatewayGroup::on_step(const Event& event) {
  StepMessage& step = network_->step_of(event);
  if (gateways_.size() == 1) {
    gateways_.front()->on_step(step);
    return network_->step_on_to_client(event);
  }
  std::vector<StepMessage> parts(gateways_.size());
  for (const Piece& piece : step.pieces) {
    StepMessage& part = parts[gateway_of(piece.turn)];
    Piece& moved = part.pieces.emplace_back(piece);
    moved.text_begin = static_cast<std::uint32_t>(part.text.size());
    part.text += step.text_of(piece);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].pieces.empty()) continue;
    parts[i].worker = step.worker;
    gateways_[i]->on_step(parts[i]);
    network_->step_to_client(parts[i]);
    arm(i);
  }
  network_->end_step(event);
}

void GatewayGroup::arm(std::size_t gateway) {
  if (exchanges_.empty()) return;
  Exchange& exchange = *exchanges_[gateway];
  const TimePoint due = exchange.load.due(time_->now());
  if (exchange.armed > time_->now() && exchange.armed <= due) return;
  exchange.armed = due;
  time_->schedule(due, {.subject = gateway, .worker = {}, .kind = EventKind::kPeersDue});
}

// One that comes early, because something else was due before, finds nothing due and asks again.
void GatewayGroup::on_peers_due(std::size_t gateway) {
  Exchange& exchange = *exchanges_[gateway];
  for (std::string& message : exchange.load.take(time_->now())) {
    const auto bytes = std::make_shared<const std::string>(std::move(message));
    for (std::size_t to = 0; to < exchanges_.size(); ++to)
      if (to != gateway && losses_.uniform() >= spec_.loss) network_->message_to_peer(to, bytes);
  }
  arm(gateway);
}

void GatewayGroup::on_peer_message(const PeerMessage& message) {
  Exchange& exchange = *exchanges_[message.gateway];
  const auto* const first = reinterpret_cast<const std::uint8_t*>(message.bytes->data());
  exchange.load.on_message({first, message.bytes->size()}, time_->now());
  arm(message.gateway);
}

bool GatewayGroup::idle() const {
  return std::ranges::all_of(gateways_, [](const auto& gateway) {
    return gateway->idle() && std::as_const(*gateway).router().loads().requests() == 0;
  });
}

}  // namespace kvist::simulation
