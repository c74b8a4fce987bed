// Calls as the JSON objects that models write.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kvist/text/chat.h"

namespace kvist::tool_calls {

/// {"name": text, "arguments": object}, or "parameters" in place of "arguments"; what else it holds is passed over.
/// The arguments keep the text they have. Nothing for anything else. Requires what JsonScanner found complete.
[[nodiscard]] std::optional<text::ToolCall> call_of_json(std::string_view json);

/// An array of at least one of those, and of nothing else.
[[nodiscard]] std::optional<std::vector<text::ToolCall>> calls_of_json(std::string_view json);

}  // namespace kvist::tool_calls
