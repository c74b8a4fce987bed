// The addresses of this machine from which a client connects: each has some 28,000 ports for one server.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::net {

inline constexpr std::size_t kMostSourceAddresses = 4'096;

/// "127.0.0.2", "127.0.0.2-127.0.0.9", "10.0.0.8/29" (its hosts, without network and broadcast address below /31), an
/// IPv6 address, or several of these with commas. Errors say what would be right; kTooLarge beyond
/// kMostSourceAddresses.
[[nodiscard]] Result<std::vector<std::string>> parse_source_addresses(std::string_view text);

/// Refuses addresses that this machine cannot bind to. The error names the first.
[[nodiscard]] Result<void> check_source_addresses(const std::vector<std::string>& addresses);

}  // namespace kvist::net
