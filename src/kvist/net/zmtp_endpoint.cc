#include "kvist/net/zmtp_endpoint.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <charconv>

namespace kvist::net {

namespace {

std::unexpected<Error> invalid(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\" is no endpoint: {}. Write tcp://host:port, tcp://*:port or ipc:///path", text, why));
}

}  // namespace

Result<ZmtpEndpoint> parse_zmtp_endpoint(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://";
  constexpr std::string_view kIpc = "ipc://";
  ZmtpEndpoint endpoint;
  if (text.starts_with(kIpc)) {
    endpoint.path = text.substr(kIpc.size());
    if (endpoint.path.empty()) return invalid(text, "it has no path");
    if (endpoint.path.size() >= sizeof(sockaddr_un::sun_path)) return invalid(text, "its path is too long");
    return endpoint;
  }
  if (!text.starts_with(kTcp)) return invalid(text, "it begins neither with tcp:// nor with ipc://");
  const std::string_view place = text.substr(kTcp.size());
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos) return invalid(text, "it has no port");
  std::string_view host = place.substr(0, colon);
  const std::string_view digits = place.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (error != std::errc() || end != digits.data() + digits.size() || endpoint.port == 0)
    return invalid(text, "its port is not a number from 1 to 65535");
  endpoint.listens = host == "*";
  if (endpoint.listens) return endpoint;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("[]/* ") != std::string_view::npos)
    return invalid(text, "its host is malformed");
  endpoint.host = host;
  return endpoint;
}

}  // namespace kvist::net
