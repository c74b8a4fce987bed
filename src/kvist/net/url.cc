#include "kvist/net/url.h"

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>
#include <system_error>

namespace kvist::net {

Result<HttpUrl> parse_http_url(std::string_view text) {
  const auto quoted = [&] { return "\"" + std::string(text.substr(0, 200)) + "\""; };
  const auto parsed = boost::urls::parse_uri(boost::core::string_view(text.data(), text.size()));
  if (!parsed) return fail(ErrorCode::kInvalidArgument, "not a URL: " + quoted());
  const boost::urls::url_view& url = *parsed;
  const bool tls = url.scheme_id() == boost::urls::scheme::https;
  if (!tls && url.scheme_id() != boost::urls::scheme::http) {
    return fail(ErrorCode::kUnsupported, "only http:// and https:// URLs are served, not " + quoted());
  }
  if (url.has_userinfo()) return fail(ErrorCode::kUnsupported, "a URL with a user name: " + quoted());
  if (url.encoded_host().empty()) return fail(ErrorCode::kInvalidArgument, "a URL without a host: " + quoted());

  HttpUrl out;
  out.tls = tls;
  if (tls) out.port = 443;
  out.host = url.host_address();
  if (const std::string_view port(url.port().data(), url.port().size()); !port.empty()) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (error != std::errc() || end != port.data() + port.size() || out.port == 0) {
      return fail(ErrorCode::kInvalidArgument, "a URL with an impossible port: " + quoted());
    }
  }
  out.authority = std::string(url.encoded_host_and_port());
  out.target = std::string(url.encoded_target());
  if (!out.target.starts_with('/')) out.target.insert(0, "/");
  return out;
}

}  // namespace kvist::net
