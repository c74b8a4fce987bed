// Who has no key is sent away before the body of a request takes memory.
#pragma once

#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/request_reporter.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// Refuses requests without a good key before their bodies are read, in the form of the API that they ask for, and
/// reports the refusal. `reporter` may be null. Empty if no keys are asked for. Requires: both outlive it.
[[nodiscard]] net::HttpHeadCheck stranger_check(KeyGate* keys, RequestReporter* reporter);

}  // namespace kvist::gateway
