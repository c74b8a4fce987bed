// Reads calls from the JSON objects that models write.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kvist/text/chat.h"

namespace kvist::tool_calls {

/// Reads {"name": text, "arguments": object}, or with "parameters" in place of "arguments". Other members are ignored.
/// The arguments' text is kept unchanged. Nothing for any other value. Requires: JsonScanner found the text complete.
[[nodiscard]] std::optional<text::ToolCall> call_of_json(std::string_view json);

/// Reads a non-empty array of such objects and nothing else.
[[nodiscard]] std::optional<std::vector<text::ToolCall>> calls_of_json(std::string_view json);

}  // namespace kvist::tool_calls
