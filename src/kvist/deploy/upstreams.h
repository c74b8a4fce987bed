// Gives the gateway of a deployment the addresses of the workers that were started.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/spec/deployment.h"

namespace kvist::deploy {

/// What the gateway is called among the parts; no worker may be.
inline constexpr std::string_view kGatewayName = "gateway";

/// The gateway's settings without any worker.
[[nodiscard]] inline spec::GatewaySpec without_upstreams(spec::GatewaySpec gateway) {
  gateway.workers.clear();
  for (spec::ServedModelSpec& model : gateway.models) model.workers.clear();
  return gateway;
}

/// The workers of that model, or of the only one.
[[nodiscard]] inline std::vector<spec::UpstreamSpec>& fleet_of(spec::GatewaySpec& gateway, const std::string& model) {
  const auto found = std::ranges::find(gateway.models, model, &spec::ServedModelSpec::model);
  return found == gateway.models.end() ? gateway.workers : found->workers;
}

}  // namespace kvist::deploy
