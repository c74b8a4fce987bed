// What an administrator decides at one gateway holds at all of the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/gateway/peer_link.h"
#include "kvist/gateway/served_models.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::gateway {

/// What was decided of a worker, as a row says it.
enum class SharedHold : std::uint8_t { kFree, kCordoned, kDrained, kRemoved };
/// "free", "cordoned", "drained", "removed"
[[nodiscard]] std::string_view to_string(SharedHold hold);

/// Routing modes and workers that are held, as rows of the table that all gateways of the group have: a key for each
/// model and for each worker of it, the last decision for either counts (docs/formats/peers.md). What is decided
/// elsewhere is carried out here; what cannot be yet, because the model comes later, is tried again. Without a link
/// nothing happens. Threads: the loop's.
class SharedDecisions {
 public:
  /// Rows that are kept for models that this gateway does not serve yet, at most.
  static constexpr std::size_t kMostWaiting = 8'192;

  /// `link`: null for a gateway that is alone. Requires: all outlive this object.
  SharedDecisions(net::EventLoop& loop, PeerLink* link, ServedModels& models);

  // Decided here.
  void tell_mode(const std::string& model, spec::RoutingMode mode);
  void tell_hold(const std::string& model, const std::string& worker, SharedHold hold);

  /// Decisions of other gateways that were carried out here, and rows that could not be read.
  [[nodiscard]] std::uint64_t followed() const { return followed_; }
  [[nodiscard]] std::uint64_t unreadable() const { return unreadable_; }

 private:
  void on_row(const std::string& key, const std::optional<std::string>& value);
  /// False: the row's model is not served here.
  [[nodiscard]] bool carry_out(const std::string& key, const std::string& value);
  void set_mode(ServedModel& model, const std::string& value);
  void hold(ServedModel& model, const std::string& value);
  void try_again();

  PeerLink* link_;
  ServedModels* models_;
  std::map<std::string, std::string> waiting_;
  std::uint64_t followed_ = 0;
  std::uint64_t unreadable_ = 0;
  net::Timer timer_;
};

}  // namespace kvist::gateway
