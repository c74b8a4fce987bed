// One gateway or several before the same workers, in virtual time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/peering/load_exchange.h"
#include "kvist/simulation/simulated_gateway.h"
#include "kvist/spec/sweep.h"

namespace kvist::simulation {

/// Gives each request to one of the gateways by chance, and everything of it to the same one; KV events and the news of
/// workers to all. What they tell each other (peering) takes a hop, and some of it is lost. With one gateway nothing of
/// that happens. Threads: one.
class GatewayGroup {
 public:
  /// Requires: the references outlive this object.
  GatewayGroup(const spec::SweepSpec& sweep, spec::RoutingMode mode, std::uint64_t run_seed, const DecisionWatch* watch,
               const tokenizer::Tokenizer& tokenizer, VirtualTime& time, Network& network, Clairvoyance& clairvoyance);

  /// Something reaches a gateway; all kinds but kHealthCheck.
  void on_event(const Event& event);
  /// Makes the prompt of a request that has not come yet. Threads: any.
  void read(TurnRequest& request) const { gateways_[gateway_of(request.id)]->read(request); }
  /// `well`: whether the worker answered.
  void on_health_check(const Event& event, bool well);

  /// A gateway holds requests.
  [[nodiscard]] bool holds() const {
    return std::ranges::any_of(gateways_, [](const auto& gateway) { return gateway->holds(); });
  }
  /// No request is under way, and none is believed to be.
  [[nodiscard]] bool idle() const;
  [[nodiscard]] std::span<const std::unique_ptr<SimulatedGateway>> all() const { return gateways_; }

 private:
  struct Exchange {
    Exchange(std::size_t number, SimulatedGateway& gateway);
    peering::LoadExchange load;
    TimePoint armed;  // when it is looked at next, if that is in the future
  };
  [[nodiscard]] std::size_t gateway_of(TurnId turn) const;
  void on_step(const Event& event);
  void on_peers_due(std::size_t gateway);
  void on_peer_message(const PeerMessage& message);
  /// Has a gateway looked at when it has something to tell.
  void arm(std::size_t gateway);

  spec::SimulatedGatewaysSpec spec_;
  std::uint64_t run_seed_;
  VirtualTime* time_;
  Network* network_;
  RandomStream losses_;
  std::vector<std::unique_ptr<SimulatedGateway>> gateways_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;  // by gateway; none with one gateway, or without exchange
};

}  // namespace kvist::simulation
