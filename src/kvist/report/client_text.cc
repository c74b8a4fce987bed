#include "kvist/report/client_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
#include <optional>

#include "kvist/render/figures.h"

namespace kvist::report {
namespace {

std::string milliseconds(double ms) {
  return render::format_fixed(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

/// How much of the certificate rests on the system's stamps.
std::string stamps_text(const results::ClientCertificate& certificate) {
  if (certificate.stamped_chunks == certificate.chunks) return {};
  if (certificate.stamped_chunks == 0) return "; this system stamps no packets, so the bounds are coarse";
  return fmt::format("; {} of {} chunks without the system's stamp",
                     render::format_count(certificate.chunks - certificate.stamped_chunks),
                     render::format_count(certificate.chunks));
}

std::string host_text(const results::ClientCertificate& certificate) {
  std::string text;
  if (certificate.run_queue_share) {
    text += fmt::format(", {:.1f} % of the time in wait for a processor", 100 * *certificate.run_queue_share);
  }
  if (certificate.steal_share) text += fmt::format(", {:.1f} % stolen", 100 * *certificate.steal_share);
  if (certificate.pauses && certificate.pauses->count > 0) {
    text += fmt::format(", processors paused {:.1f} % of the time (p99 {} ms, p99.9 {} ms)",
                        100 * certificate.pauses->share, milliseconds(certificate.pauses->p99_ms),
                        milliseconds(certificate.pauses->p999_ms));
  }
  return text;
}

}  // namespace

std::string verdict_text(const analysis::ClientVerdict& verdict) {
  std::string text(analysis::to_string(verdict.grade));
  return verdict.ok() ? text : text + ": " + fmt::format("{}", fmt::join(verdict.reasons, "; "));
}

std::string shares_text(const results::ClientHealth& client, results::BoundedFigure p50) {
  if (!client.certificate) return "-";
  std::array<std::string, 3> worst;
  for (std::size_t i = 0; i < worst.size(); ++i) {
    const std::optional<results::ClientShare>& share = client.certificate->shares[static_cast<std::size_t>(p50) + i];
    if (!share) return "-";
    worst[i] = milliseconds(share->worst_ms());
  }
  return fmt::format("{}, {}, {}ms", worst[0], worst[1], worst[2]);
}

std::string client_text(const results::ClientHealth& client, const analysis::ClientVerdict& verdict) {
  const std::string reasons = verdict.ok() ? std::string() : fmt::format(" ({})", fmt::join(verdict.reasons, "; "));
  if (!client.certificate || client.certificate->chunks == 0) {
    return fmt::format("{}: loop delay p99 {:.1f} ms, send delay p99 {:.1f} ms, {:.2f} of a core{}",
                       analysis::to_string(verdict.grade), client.loop_delay_p99_ms, client.send_delay_p99_ms,
                       client.cpu_share, reasons);
  }
  const results::ClientCertificate& certificate = *client.certificate;
  return fmt::format(
      "{}: its own part of TTFT p50, p95, p99 is at most {}, of ITL {}; read p99 {} ms after arrival, begun p99 {} ms "
      "late, {} loop stalls ({} ms), {:.2f} of a core{}{}{}",
      analysis::to_string(verdict.grade), shares_text(client, results::BoundedFigure::kTtftP50),
      shares_text(client, results::BoundedFigure::kItlP50), milliseconds(certificate.receive_delay_p99_ms),
      milliseconds(certificate.dispatch_delay_p99_ms), certificate.loop_stalls,
      milliseconds(certificate.loop_stalled_ms), client.cpu_share, host_text(certificate), stamps_text(certificate),
      reasons);
}

}  // namespace kvist::report
