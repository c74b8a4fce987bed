// Which paths of the workers clients may reach through the gateway.
#pragma once

#include <string_view>

namespace kvist::gateway {

/// Whether a request that the gateway does not serve itself is given to a worker. `path` has no query. The list
/// contains the clients' endpoints of OpenAI's, Anthropic's, Cohere's and vLLM's APIs. Endpoints that control a worker
/// or expose its internals (cache, sleep, adapters, profiler, weights, metrics) are not on it: only paths that are
/// known to be harmless pass, and no path that another server might interpret differently ("..", "//", escapes).
[[nodiscard]] bool is_passed_on(std::string_view path);

/// Whether requests to such a path only compute something of what they contain, so that they may be sent again.
[[nodiscard]] bool only_computes(std::string_view path);

}  // namespace kvist::gateway
