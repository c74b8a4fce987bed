// By how much the load generator's own doings may have changed what it measured.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvist::results {

/// The part of a measured figure that may be the client's own: measured minus true is from `low_ms` to `high_ms`. Both
/// may be negative, because a gap between two chunks is too short where the first one was read late.
struct ClientShare {
  double low_ms = 0;
  double high_ms = 0;
  /// The largest error, in either direction.
  [[nodiscard]] double worst_ms() const {
    const double below = low_ms < 0 ? -low_ms : low_ms;
    const double above = high_ms < 0 ? -high_ms : high_ms;
    return below > above ? below : above;
  }
  friend bool operator==(const ClientShare&, const ClientShare&) = default;
};

/// The figures that have a bound, in the order of ClientCertificate::shares.
enum class BoundedFigure : std::uint8_t { kTtftP50, kTtftP95, kTtftP99, kItlP50, kItlP95, kItlP99 };
inline constexpr std::size_t kBoundedFigures = 6;
/// As in result files.
inline constexpr std::array<std::string_view, kBoundedFigures> kBoundedFigureNames = {
    "ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms"};

/// What a watcher saw of a processor's pauses, in which it ran nothing: how long after a random instant it ran on.
struct ClientPauses {
  std::uint64_t count = 0;  ///< pauses that were seen
  double share = 0;         ///< of all instants, those within a pause
  double p99_ms = 0;        ///< over all instants, those without a pause included
  double p999_ms = 0;
  double max_ms = 0;
  /// Nothing else kept the watcher from its processor. If not, its own waiting for one counts as pause.
  bool real_time = false;
  double cpu_share = 0;  ///< what the watching cost, of one core
  friend bool operator==(const ClientPauses&, const ClientPauses&) = default;
};

/// What the client measured of itself while it measured a level. Nothing: not known on this system.
struct ClientCertificate {
  std::uint64_t chunks = 0;          ///< content chunks behind the figures
  std::uint64_t stamped_chunks = 0;  ///< of them, those whose arrival the system told
  /// How long chunks had been in this machine before they were read, at least.
  double receive_delay_p50_ms = 0;
  double receive_delay_p99_ms = 0;
  double receive_delay_max_ms = 0;
  /// How late the client came to a turn that was due.
  double dispatch_delay_p99_ms = 0;
  double dispatch_delay_max_ms = 0;
  std::uint64_t loop_stalls = 0;  ///< times at which the loop ran no timer for 10 ms or more beyond its time
  double loop_stalled_ms = 0;     ///< the sum of them
  std::optional<double> run_queue_share = {};  ///< of the time, the loop's thread was ready and waited for a processor
  std::optional<double> steal_share = {};      ///< of the processors' time, what a hypervisor gave to others
  std::optional<ClientPauses> pauses = {};     ///< they are in `shares`
  /// Nothing where there are no samples.
  std::array<std::optional<ClientShare>, kBoundedFigures> shares = {};

  [[nodiscard]] const std::optional<ClientShare>& share(BoundedFigure figure) const {
    return shares[static_cast<std::size_t>(figure)];
  }
  friend bool operator==(const ClientCertificate&, const ClientCertificate&) = default;
};

}  // namespace kvist::results
