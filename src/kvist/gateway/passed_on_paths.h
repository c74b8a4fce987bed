// Which paths of the workers clients may reach through the gateway.
#pragma once

#include <string_view>

namespace kvist::gateway {

/// Whether a request to this path (without query) that the gateway does not serve itself is given to a worker: the
/// endpoints of OpenAI's, Anthropic's, Cohere's and vLLM's APIs for clients. Never those that steer a worker or tell
/// of its inside (its cache, sleep, adapters, profiler, weights, metrics): only what is known to be harmless passes,
/// and no path that another server might read as a different one ("..", "//", escapes).
[[nodiscard]] bool is_passed_on(std::string_view path);

}  // namespace kvist::gateway
