// A worker's place in the network as a proxy in front of it names it.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::gateway {

/// "address:port" of a worker's URL, an IPv6 address in brackets; the port of an https URL without one is 443.
/// "localhost" stands for 127.0.0.1 (RFC 6761). Errors: kInvalidArgument for any other name, because a proxy is told
/// addresses.
[[nodiscard]] Result<std::string> worker_endpoint(std::string_view url);

}  // namespace kvist::gateway
