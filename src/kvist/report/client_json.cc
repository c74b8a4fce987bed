#include "kvist/report/client_json.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvist::report {
namespace {

/// Nanoseconds of a millisecond, and as fine for shares: what is behind them is noise.
constexpr double kScale = 1e6;

void number(JsonWriter& json, std::string_view key, std::optional<double> value) {
  json.key(key);
  if (value && std::isfinite(*value)) {
    json.value(std::round(*value * kScale) / kScale);
  } else {
    json.null();
  }
}

void write_shares(JsonWriter& json, const results::ClientCertificate& certificate) {
  json.key("shares").begin_object();
  for (std::size_t i = 0; i < certificate.shares.size(); ++i) {
    const std::optional<results::ClientShare>& share = certificate.shares[i];
    json.key(results::kBoundedFigureNames[i]);
    if (!share) {
      json.null();
      continue;
    }
    json.begin_object();
    number(json, "low", share->low_ms);
    number(json, "high", share->high_ms);
    json.end_object();
  }
  json.end_object();
}

void write_certificate(JsonWriter& json, const std::optional<results::ClientCertificate>& certificate) {
  json.key("certificate");
  if (!certificate) {
    json.null();
    return;
  }
  const results::ClientCertificate& c = *certificate;
  json.begin_object().field("chunks", c.chunks).field("stamped_chunks", c.stamped_chunks);
  write_shares(json, c);
  number(json, "receive_delay_p50_ms", c.receive_delay_p50_ms);
  number(json, "receive_delay_p99_ms", c.receive_delay_p99_ms);
  number(json, "receive_delay_max_ms", c.receive_delay_max_ms);
  number(json, "dispatch_delay_p99_ms", c.dispatch_delay_p99_ms);
  number(json, "dispatch_delay_max_ms", c.dispatch_delay_max_ms);
  json.field("loop_stalls", c.loop_stalls);
  number(json, "loop_stalled_ms", c.loop_stalled_ms);
  number(json, "run_queue_share", c.run_queue_share);
  number(json, "steal_share", c.steal_share);
  json.end_object();
}

}  // namespace

void write_client(JsonWriter& json, const results::ClientHealth& client, const analysis::ClientVerdict& verdict) {
  json.key("client").begin_object().field("verdict", analysis::to_string(verdict.grade));
  json.key("reasons").begin_array();
  for (const std::string& reason : verdict.reasons) json.value(reason);
  json.end_array();
  number(json, "loop_delay_p99_ms", client.loop_delay_p99_ms);
  number(json, "loop_delay_max_ms", client.loop_delay_max_ms);
  number(json, "cpu_share", client.cpu_share);
  number(json, "send_delay_p99_ms", client.send_delay_p99_ms);
  write_certificate(json, client.certificate);
  json.end_object();
}

}  // namespace kvist::report
