// Reads the content of a chat's message. Private to the module.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/openai/codec.h"
#include "kvist/text/chat.h"

namespace kvist::openai {

/// Reads `content`: a text, or an array of parts, whose non-empty texts are joined with text::kPartSeparator. For
/// routing, parts that are not text, and invalid content, are ignored.
[[nodiscard]] Result<void> read_content(const JsonObject& message, std::string_view role, ReadFor purpose,
                                        text::ChatMessage& into);

/// Reads `reasoning`, or its old name `reasoning_content`, of an assistant's message.
void read_reasoning(const JsonObject& message, text::ChatMessage& into);

}  // namespace kvist::openai
