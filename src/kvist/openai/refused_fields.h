// Refuses fields that would change the output but that no engine here honours.
#pragma once

#include "kvist/base/error.h"
#include "kvist/base/json.h"

namespace kvist::openai {

/// The kinds of requests.
enum class RequestKind { kChat, kCompletion };

/// Errors: kUnsupported with the first field of `request` that is not honoured. Each such field may be absent, null, or
/// have the value that means the same as absent.
[[nodiscard]] Result<void> refuse_unsupported(const JsonObject& request, RequestKind kind);

}  // namespace kvist::openai
