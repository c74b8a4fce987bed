// The header field by which a gateway is recognised.
#pragma once

#include <string_view>

namespace kvist::gateway {

/// A field of the answers to GET /health, on both listeners.
inline constexpr std::string_view kServiceField = "x-kvist-service";
inline constexpr std::string_view kGatewayService = "gateway";

}  // namespace kvist::gateway
