// Developers' messages for templates that know none.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kvist/text/chat.h"

namespace kvist::text {

/// The conversation with its developers' messages as system messages, as vLLM hands it to a template that does not name
/// the role: where a system message would not be the first, all of them become one, with an empty line between. Nothing
/// where no message is a developer's.
[[nodiscard]] std::optional<std::vector<ChatMessage>> developers_as_system(std::span<const ChatMessage> messages);

}  // namespace kvist::text
