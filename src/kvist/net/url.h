// Private to net: the parts of an http or https URL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::net {

struct HttpUrl {
  std::string host;  ///< without the brackets of an IPv6 address
  std::uint16_t port = 80;
  bool tls = false;       ///< https
  std::string authority;  ///< the value of the Host field
  std::string target;     ///< path and query, at least "/"
};

/// Parses "http://host[:port][/path][?query]", or the same with https. Other schemes and user names are kUnsupported.
[[nodiscard]] Result<HttpUrl> parse_http_url(std::string_view text);

}  // namespace kvist::net
