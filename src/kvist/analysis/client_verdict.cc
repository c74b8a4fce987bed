#include "kvist/analysis/client_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace kvist::analysis {
namespace {

using results::BoundedFigure;

void worsen(ClientVerdict& verdict, ClientGrade grade, std::string reason) {
  verdict.grade = std::max(verdict.grade, grade);
  verdict.reasons.push_back(std::move(reason));
}

/// A figure with its bound, as it is judged.
struct JudgedShare {
  const char* title;
  BoundedFigure figure;
  double Distribution::* percentile;
};
constexpr std::array kTtftShares = {JudgedShare{"TTFT p50", BoundedFigure::kTtftP50, &Distribution::p50},
                                    JudgedShare{"TTFT p95", BoundedFigure::kTtftP95, &Distribution::p95},
                                    JudgedShare{"TTFT p99", BoundedFigure::kTtftP99, &Distribution::p99}};
constexpr std::array kItlShares = {JudgedShare{"ITL p50", BoundedFigure::kItlP50, &Distribution::p50},
                                   JudgedShare{"ITL p95", BoundedFigure::kItlP95, &Distribution::p95},
                                   JudgedShare{"ITL p99", BoundedFigure::kItlP99, &Distribution::p99}};

void judge_share(const results::ClientCertificate& certificate, const JudgedShare& judged, const Distribution& measured,
                 ClientVerdict& verdict) {
  const std::optional<results::ClientShare>& share = certificate.share(judged.figure);
  if (!share || measured.count == 0) return;
  const double figure = measured.*judged.percentile;
  const double worst = share->worst_ms();
  const auto above = [&](double ms, double part) { return worst > std::max(ms, part * figure); };
  if (!above(kMaxClientShareMs, kMaxClientShareOfFigure)) return;
  const bool invalid = above(kInvalidClientShareMs, kInvalidClientShareOfFigure);
  worsen(verdict, invalid ? ClientGrade::kInvalid : ClientGrade::kDegraded,
         fmt::format("{:.1f} ms of the {} ({:.1f} ms) may be the client's", worst, judged.title, figure));
}

void judge_delay(const char* name, double delay_ms, const Distribution& ttft, double least_ms, ClientVerdict& verdict) {
  if (delay_ms > kMaxClientDelayMs) {
    worsen(verdict, ClientGrade::kDegraded,
           fmt::format("{} p99 {:.1f} ms is above {:.0f} ms", name, delay_ms, kMaxClientDelayMs));
  } else if (ttft.count > 0 && delay_ms > std::max(least_ms, kMaxClientDelayShareOfTtft * ttft.p95)) {
    worsen(verdict, ClientGrade::kDegraded,
           fmt::format("{} p99 {:.1f} ms is above {:.0f} % of the TTFT p95 ({:.1f} ms)", name, delay_ms,
                       100 * kMaxClientDelayShareOfTtft, ttft.p95));
  }
}

ClientVerdict verdict_by_certificate(const results::ClientCertificate& certificate, const Distribution& ttft,
                                     const Distribution& itl) {
  ClientVerdict verdict;
  for (const JudgedShare& judged : kTtftShares) judge_share(certificate, judged, ttft, verdict);
  for (const JudgedShare& judged : kItlShares) judge_share(certificate, judged, itl, verdict);
  judge_delay("dispatch delay", certificate.dispatch_delay_p99_ms, ttft, kMaxClientShareMs, verdict);
  // Pauses that were measured are in the bounds.
  if (!certificate.pauses && certificate.steal_share.value_or(0) > kMaxStealShare) {
    worsen(
        verdict, ClientGrade::kDegraded,
        fmt::format("the hypervisor took {:.1f} % of the processors' time, above {:.0f} %, in pauses of unknown length",
                    100 * *certificate.steal_share, 100 * kMaxStealShare));
  }
  return verdict;
}

}  // namespace

std::string_view to_string(ClientGrade grade) {
  switch (grade) {
    case ClientGrade::kValid:
      return "valid";
    case ClientGrade::kDegraded:
      return "degraded";
    case ClientGrade::kInvalid:
      return "invalid";
  }
  return "invalid";
}

ClientVerdict client_verdict(const results::ClientHealth& client, const Distribution& ttft, const Distribution& itl) {
  if (client.certificate && client.certificate->chunks > 0) {
    return verdict_by_certificate(*client.certificate, ttft, itl);
  }
  ClientVerdict verdict;
  judge_delay("loop delay", client.loop_delay_p99_ms, ttft, 0, verdict);
  judge_delay("send delay", client.send_delay_p99_ms, ttft, 0, verdict);
  if (client.cpu_share > kMaxClientCpuShare) {
    worsen(verdict, ClientGrade::kDegraded,
           fmt::format("CPU share {:.2f} is above {:.2f} of one core", client.cpu_share, kMaxClientCpuShare));
  }
  return verdict;
}

}  // namespace kvist::analysis
