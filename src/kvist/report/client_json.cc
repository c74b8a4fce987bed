#include "kvist/report/client_json.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvist::report {
namespace {

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
    json.rounded_field("low", share->low_ms);
    json.rounded_field("high", share->high_ms);
    json.end_object();
  }
  json.end_object();
}

void write_pauses(JsonWriter& json, const std::optional<results::ClientPauses>& pauses) {
  json.key("pauses");
  if (!pauses) {
    json.null();
    return;
  }
  json.begin_object().field("count", pauses->count);
  json.rounded_field("share", pauses->share);
  json.rounded_field("p99_ms", pauses->p99_ms);
  json.rounded_field("p999_ms", pauses->p999_ms);
  json.rounded_field("max_ms", pauses->max_ms);
  json.field("real_time", pauses->real_time);
  json.rounded_field("cpu_share", pauses->cpu_share);
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
  json.rounded_field("receive_delay_p50_ms", c.receive_delay_p50_ms);
  json.rounded_field("receive_delay_p99_ms", c.receive_delay_p99_ms);
  json.rounded_field("receive_delay_max_ms", c.receive_delay_max_ms);
  json.rounded_field("dispatch_delay_p99_ms", c.dispatch_delay_p99_ms);
  json.rounded_field("dispatch_delay_max_ms", c.dispatch_delay_max_ms);
  json.field("loop_stalls", c.loop_stalls);
  json.rounded_field("loop_stalled_ms", c.loop_stalled_ms);
  json.rounded_field("run_queue_share", c.run_queue_share);
  json.rounded_field("steal_share", c.steal_share);
  write_pauses(json, c.pauses);
  json.end_object();
}

}  // namespace

void write_client(JsonWriter& json, const results::ClientHealth& client, const analysis::ClientVerdict& verdict) {
  json.key("client").begin_object().field("verdict", analysis::to_string(verdict.grade));
  json.key("reasons").begin_array();
  for (const std::string& reason : verdict.reasons) json.value(reason);
  json.end_array();
  json.rounded_field("loop_delay_p99_ms", client.loop_delay_p99_ms);
  json.rounded_field("loop_delay_max_ms", client.loop_delay_max_ms);
  json.rounded_field("cpu_share", client.cpu_share);
  json.rounded_field("send_delay_p99_ms", client.send_delay_p99_ms);
  write_certificate(json, client.certificate);
  json.end_object();
}

}  // namespace kvist::report
