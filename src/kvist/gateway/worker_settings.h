// What the gateway's clients have to know of each worker, besides its address.
#pragma once

#include <map>
#include <string>

#include "kvist/base/error.h"
#include "kvist/net/http_client.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// By URL: what the certificate of an https worker has to be, and the key that is sent to each worker (of its own file,
/// the fleet's, or KVIST_WORKER_API_KEY). Reads the files. Errors name the file, never what is in it.
[[nodiscard]] Result<std::map<std::string, net::ServerSettings>> worker_settings(const spec::GatewaySpec& gateway);

/// The same for one worker.
[[nodiscard]] Result<net::ServerSettings> worker_settings(const spec::GatewaySpec& gateway,
                                                          const spec::UpstreamSpec& worker);

/// The first line of a file that has one key. Refused is what cannot stand in a header field.
[[nodiscard]] Result<std::string> read_worker_key(const std::string& file);

}  // namespace kvist::gateway
