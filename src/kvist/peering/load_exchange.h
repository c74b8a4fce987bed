// What a gateway says of its load to the others and hears from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/dispatch/wait_admission.h"
#include "kvist/peering/load_teller.h"
#include "kvist/peering/message.h"
#include "kvist/peering/peer_table.h"
#include "kvist/peering/unheard_requests.h"
#include "kvist/routing/router.h"

namespace kvist::peering {

/// LoadTeller, PeerTable and UnheardRequests of one router, together. How old news is when it comes is measured without
/// comparing clocks: each state says which message of every other gateway came last and how long ago, and half of what
/// is left of the time since that message was sent was the way. Threads: the router's.
class LoadExchange {
 public:
  /// A way of more than this is not believed.
  static constexpr Duration kLongestWay = std::chrono::seconds(1);

  struct Options {
    std::string gateway;     ///< this one's name, which no other has
    std::uint64_t run = 0;   ///< of its process: a later one has a higher number
    Duration patience = {};  ///< a gateway that is silent for longer is gone
    TellingTimes times = {};
  };
  /// Requires: `router` and `fleet` outlive this object; no request is at a worker.
  LoadExchange(const Options& options, routing::Router& router, const dispatch::Fleet& fleet);

  /// Tells the others what is refused here, and `admission` what they refuse. Requires: it outlives this object.
  void share_refusals(dispatch::WaitAdmission& admission) { admission_ = &admission; }
  /// Has `handler` called when due() may have become earlier. It may call due() alone.
  void on_news(std::function<void()> handler) { on_news_ = std::move(handler); }
  /// When take() is to be called next.
  [[nodiscard]] TimePoint due(TimePoint now);
  /// Does what is due, and returns the messages that are, in their order; mostly one or none.
  [[nodiscard]] std::vector<std::string> take(TimePoint now);
  /// The last message: the gateway ends.
  [[nodiscard]] std::string goodbye() { return teller_.goodbye(); }
  /// A message of another gateway came.
  void on_message(std::span<const std::uint8_t> bytes, TimePoint now);
  /// Somebody may have heard nothing of what was said up to now: the next take() has a state.
  void repeat() { teller_.repeat(); }

  [[nodiscard]] const PeerTable& peers() const { return peers_; }
  /// How long a message is on its way, on average over the gateways and the last ones measured; none: not known yet.
  [[nodiscard]] std::optional<Duration> way() const { return way_; }
  /// Requests of the others that are expected to be at workers, as no word of them can have come yet.
  [[nodiscard]] std::size_t unheard() const { return unheard_.size(); }

 private:
  void on_heard(const Heard& heard, TimePoint now);
  void pass_on_refusals(TimePoint now);

  TellingTimes times_;
  LoadTeller teller_;
  PeerTable peers_;
  UnheardRequests unheard_;
  std::function<void()> on_news_ = [] {};
  std::optional<Duration> way_;
  dispatch::WaitAdmission* admission_ = nullptr;
  // Of the others' requests, what it was told of.
  std::uint64_t told_routed_ = 0;
  std::uint64_t told_refused_ = 0;
};

}  // namespace kvist::peering
