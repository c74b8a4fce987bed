// What an HTTP server has open, and whom it turned away by itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace kvist::net {

/// Sums over servers are meaningful.
struct HttpServerReport {
  /// What a server answers to requests that never come to the service: they are no HTTP, too large, too slow, in a
  /// coding that is not read, of a web page that may not, for another server, or there is no room.
  static constexpr auto kStatuses = std::to_array<int>({400, 403, 408, 413, 415, 417, 421, 431, 501, 503});

  std::uint64_t connections = 0;         ///< open now
  std::uint64_t idle = 0;                ///< of them, those without any byte of a request
  std::uint64_t reserved = 0;            ///< of them, those beyond the bound
  std::uint64_t closed_for_others = 0;   ///< idle ones that made room
  std::uint64_t without_a_place = 0;     ///< newcomers closed at once, as nobody could make room
  std::uint64_t over_address_bound = 0;  ///< newcomers closed at once, as their address had too many
  std::array<std::uint64_t, kStatuses.size()> refused = {};  ///< requests by status

  using Named = std::pair<std::string_view, std::uint64_t>;
  /// The open connections, each in one state.
  [[nodiscard]] std::array<Named, 3> by_state() const {
    return {Named("active", connections - idle - reserved), Named("idle", idle), Named("reserved", reserved)};
  }
  /// The connections that were closed so that others have a place, by reason.
  [[nodiscard]] std::array<Named, 3> closed() const {
    return {Named("made_room", closed_for_others), Named("no_place", without_a_place),
            Named("address", over_address_bound)};
  }

  /// Requires: kStatuses has it.
  void count_refusal(int status) {
    ++refused[static_cast<std::size_t>(std::ranges::find(kStatuses, status) - kStatuses.begin())];
  }
  HttpServerReport& operator+=(const HttpServerReport& other) {
    connections += other.connections;
    idle += other.idle;
    reserved += other.reserved;
    closed_for_others += other.closed_for_others;
    without_a_place += other.without_a_place;
    over_address_bound += other.over_address_bound;
    for (std::size_t i = 0; i < refused.size(); ++i) refused[i] += other.refused[i];
    return *this;
  }
  bool operator==(const HttpServerReport&) const = default;
};

}  // namespace kvist::net
