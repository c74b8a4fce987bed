// What is to be seen of the other gateways: metrics, and a word for /health.
#pragma once

#include <string_view>

#include "kvist/base/json_writer.h"
#include "kvist/gateway/peer_exchange.h"
#include "kvist/gateway/peer_link.h"
#include "kvist/gateway/served_models.h"
#include "kvist/gateway/shared_decisions.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// "together", or "alone" without a connection to the others.
[[nodiscard]] std::string_view peers_word(const PeerLink::Report& report);
void write_peer_metrics(const PeerLink& link, const SharedDecisions& decisions, const ServedModels& models,
                        telemetry::MetricsPage& page);
/// An object: the connection and, for each model, the other gateways.
void write_peers(JsonWriter& json, const PeerLink& link, const ServedModels& models, TimePoint now);

}  // namespace kvist::gateway
