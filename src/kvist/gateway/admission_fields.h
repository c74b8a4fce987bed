// What a client's header fields and its API key say about how long a request may wait.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/dispatch/wait_admission.h"
#include "kvist/gateway/key_account.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// How soon the first token has to come, in milliseconds (llm-d's field).
inline constexpr std::string_view kTtftHeader = "X-SLO-TTFT-MS";
/// How long the client waits for an answer, in seconds.
inline constexpr std::string_view kTimeoutHeader = "X-Request-Timeout";
/// The same, as OpenAI's client libraries send it by themselves. A value that is not a number is ignored.
inline constexpr std::string_view kStainlessTimeoutHeader = "X-Stainless-Timeout";
/// A whole number, as the body's `priority`, which it replaces.
inline constexpr std::string_view kPriorityHeader = "X-Request-Priority";

/// Reads how long the request may wait. The shortest of the times counts. `priority` is the body's. `account` is the
/// key's, or null: no request can go below the priority in its key's line. Requests that compute nothing (GET) are
/// exempt. Errors: kInvalidArgument for a field that is not a number of its kind.
[[nodiscard]] Result<dispatch::AdmissionProfile> read_admission_fields(const net::HttpRequest& request,
                                                                       std::int32_t priority,
                                                                       const KeyAccount* account);

}  // namespace kvist::gateway
