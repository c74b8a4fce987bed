// Which header fields pass a proxy, in each direction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/net/http_types.h"

namespace kvist::gateway {

inline constexpr std::string_view kRequestIdHeader = "X-Request-Id";
/// The client's field for the session that the request belongs to.
inline constexpr std::string_view kSessionHeader = "X-Session-ID";
inline constexpr std::string_view kWorkerHeader = "x-kvist-worker";
inline constexpr std::string_view kPredictedCachedTokensHeader = "x-kvist-predicted-cached-tokens";

/// Whether a client's credentials (Authorization, X-API-Key, Cookie) go on to the worker. They are for the gateway,
/// unless it is told otherwise.
enum class Credentials : std::uint8_t { kKeep, kPass };

/// A client's fields for the worker: all except hop-by-hop fields (RFC 9110, 7.6.1), framing and host. Fields that
/// ask for compression are left out, because the gateway reads the answer.
[[nodiscard]] net::Headers headers_for_worker(net::Headers headers, const std::string& request_id,
                                              Credentials credentials);
/// A worker's fields for the client: all except hop-by-hop fields, framing, cookies, and what it says of itself, plus
/// the request id that the client knows. A Location at the worker's own address becomes a path, so that the client's
/// next request comes here too.
[[nodiscard]] net::Headers headers_for_client(net::Headers headers, const std::string& request_id,
                                              std::string_view worker_url);
/// Whether a client's request id is adopted: it has to be printable, without spaces, at most 128 characters.
[[nodiscard]] bool is_usable_request_id(std::string_view id);
/// The id that a client gave its request, if it is adopted; otherwise empty. It refers to the fields.
[[nodiscard]] std::string_view given_request_id(const net::Headers& headers);

}  // namespace kvist::gateway
