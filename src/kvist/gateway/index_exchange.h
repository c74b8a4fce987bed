// Parts of the index, from and for other gateways: what one model's routing has to do with them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvist/gateway/model_parts.h"
#include "kvist/gateway/peer_link.h"
#include "kvist/net/event_loop.h"
#include "kvist/peering/part_giver.h"
#include "kvist/peering/part_taker.h"

namespace kvist::gateway {

/// Drives peering's PartTaker and PartGiver by the loop's time, the link's messages and the KV events' losses. Threads:
/// the loop's.
class IndexExchange {
 public:
  /// Requires: all outlive this object.
  IndexExchange(net::EventLoop& loop, PeerLink& link, ModelParts& parts);
  ~IndexExchange();
  IndexExchange(const IndexExchange&) = delete;
  IndexExchange& operator=(const IndexExchange&) = delete;

  /// The other gateways that are heard.
  void set_gateways(std::vector<std::string> names);
  void on_request(std::span<const std::uint8_t> bytes, const std::string& reply_to);
  void on_answer(std::span<const std::uint8_t> bytes);

  [[nodiscard]] const peering::PartTaker& taker() const { return taker_; }
  [[nodiscard]] const peering::PartGiver& giver() const { return giver_; }

 private:
  void on_lost_changed(WorkerId worker);
  void on_imported(const peering::PartHead& head, const std::string& problem);
  void obey(const peering::PartTaker::Actions& actions);
  void obey(const peering::PartGiver::Action& action);
  void arm();
  /// A function that calls `then` if this object is still there.
  template <class Then>
  [[nodiscard]] auto if_alive(Then then);

  PeerLink* link_;
  ModelParts* parts_;
  std::string model_;  // peer_key() of it
  peering::PartTaker taker_;
  peering::PartGiver giver_;
  net::Timer timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kvist::gateway
