// Keeps what a client authenticates with out of what it writes down.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/net/http_types.h"

namespace kvist::loadgen {

/// The texts that must not be written anywhere: the key, the values of the headers and their last words ("Bearer
/// <key>"), the query of the path and the values in it (?key=<key>).
/// Values below six characters are left out, because they would be found in any text.
[[nodiscard]] std::vector<std::string> secrets_of(const std::string& bearer_key, const net::Headers& headers,
                                                  std::string_view path = {});

/// The text with "..." in place of each secret: a server may quote in its error what it refused.
[[nodiscard]] std::string without_secrets(std::string text, const std::vector<std::string>& secrets);

}  // namespace kvist::loadgen
