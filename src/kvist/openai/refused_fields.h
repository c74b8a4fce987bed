// Fields that would change the output and that no engine here honours: refused by name, never ignored.
#pragma once

#include "kvist/base/error.h"
#include "kvist/openai/json_object_impl.h"

namespace kvist::openai {

/// Which of the two requests a body is.
enum class RequestKind { kChat, kCompletion };

/// kUnsupported naming the first field of `request` that asks for something not honoured. Each such field may be
/// absent, null, or have the value that means the same as absent.
[[nodiscard]] Result<void> refuse_unsupported(const JsonObject& request, RequestKind kind);

}  // namespace kvist::openai
