// Whether the load generator kept up well enough for its figures to be those of the server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/statistics.h"
#include "kvist/results/records.h"

namespace kvist::analysis {

enum class ClientGrade : std::uint8_t {
  kValid,     ///< what may be the client's own is below what anyone should conclude from
  kDegraded,  ///< small differences may be the client's
  kInvalid,   ///< the figures may be the client's as much as the server's
};
/// "valid", "degraded", "invalid".
[[nodiscard]] std::string_view to_string(ClientGrade grade);

/// A grade other than valid has at least one reason.
struct ClientVerdict {
  ClientGrade grade = ClientGrade::kValid;
  std::vector<std::string> reasons = {};
  [[nodiscard]] bool ok() const { return grade == ClientGrade::kValid; }
};

/// A figure is degraded if the client's share of it may be above both of these. One millisecond is what calibration
/// asks of a host, and below the gap between two tokens of any fast stream; five percent is what `kvist report
/// regression` counts as no change, so that a valid client cannot make a change by itself.
inline constexpr double kMaxClientShareMs = 1;
inline constexpr double kMaxClientShareOfFigure = 0.05;
/// A figure is invalid if the share may be above both of these: a quarter is as much as one way of routing commonly
/// gains over another.
inline constexpr double kInvalidClientShareMs = 5;
inline constexpr double kInvalidClientShareOfFigure = 0.25;
/// Turns begun later than this at p99, or by more than this share of the level's TTFT p95 (and one millisecond): the
/// server did not get the load that was ordered. The delay is compared with the p95, because a delay of one request in
/// a hundred hardly changes the median, but does change the tail.
inline constexpr double kMaxClientDelayMs = 10;
inline constexpr double kMaxClientDelayShareOfTtft = 0.05;
/// While a hypervisor has the processor, nothing is stamped and nobody knows what was late, unless its pauses were
/// measured (ClientCertificate::pauses): then they are in the bounds, and this limit does not apply.
inline constexpr double kMaxStealShare = 0.02;
/// Share of one core, used if there is no certificate.
inline constexpr double kMaxClientCpuShare = 0.8;

/// The verdict by the certificate; without one (an older file) by the delays of timers and sends and by the CPU share
/// alone, which cannot make it invalid. Distributions are in milliseconds.
[[nodiscard]] ClientVerdict client_verdict(const results::ClientHealth& client, const Distribution& ttft,
                                           const Distribution& itl);

}  // namespace kvist::analysis
