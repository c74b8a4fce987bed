// What an administrator decides at one gateway holds at all of the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kvist/gateway/peer_link.h"
#include "kvist/gateway/served_models.h"
#include "kvist/gateway/worker_decision.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::gateway {

/// Routing modes and workers that are held, as rows of the table that all gateways of the group have: a key for each
/// model and for each worker of it, the last decision for either counts (docs/formats/peers.md). What is decided
/// elsewhere is carried out here, at a model that comes later too, or that leaves and comes back. Without a link
/// nothing is told. Threads: the loop's.
class SharedDecisions {
 public:
  /// Rows that are kept, at most. Beyond it, one of a new key is carried out at the model that is there, if any.
  static constexpr std::size_t kMostRows = 16'384;

  /// `link`: null for a gateway that is alone. Requires: all outlive this object.
  SharedDecisions(net::EventLoop& loop, PeerLink* link, ServedModels& models);

  // Decided here.
  void tell_mode(const std::string& model, spec::RoutingMode mode);
  void tell_hold(const std::string& model, WorkerDecision decision);

  // Called by the link and by the timer.
  /// The table has this value for the key; nothing: it was deleted.
  void on_row(const std::string& key, const std::optional<std::string>& value);
  /// Carries out at models that have come what was decided for them.
  void look_for_models();

  /// Decisions of other gateways that were carried out here, rows that could not be read, and that are not kept.
  [[nodiscard]] std::uint64_t followed() const { return followed_; }
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }
  [[nodiscard]] std::uint64_t unkept() const { return unkept_; }

 private:
  using Decision = std::variant<spec::RoutingMode, WorkerDecision>;

  [[nodiscard]] static std::optional<Decision> read(std::string_view key, const std::string& value);
  /// Returns whether that is news.
  bool keep(const std::string& key, const Decision& decision);
  void carry_out(ServedModel& model, const Decision& decision);
  void set_mode(ServedModel& model, spec::RoutingMode mode);
  void hold(ServedModel& model, const WorkerDecision& decided);
  void look_later();

  PeerLink* link_;
  ServedModels* models_;
  std::map<std::string, Decision> rows_;  // the last one of each key
  ModelId next_model_{};                  // the first one that rows_ was not carried out at: they are counted up
  std::uint64_t followed_ = 0;
  std::uint64_t unreadable_ = 0;
  std::uint64_t unkept_ = 0;
  net::Timer timer_;
};

}  // namespace kvist::gateway
