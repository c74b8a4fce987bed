// What a message of a chat says. Private to the module.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/json_object_impl.h"
#include "kvist/text/chat.h"

namespace kvist::openai {

/// `content`: a text, or an array of parts, whose texts are joined with text::kPartSeparator; empty ones are left out
/// then. Read for routing, parts that are no text are passed over, and so is what nobody understands.
[[nodiscard]] Result<void> read_content(const JsonObject& message, std::string_view role, ReadFor purpose,
                                        text::ChatMessage& into);

/// `reasoning`, or its old name `reasoning_content`, of an assistant's message.
void read_reasoning(const JsonObject& message, text::ChatMessage& into);

}  // namespace kvist::openai
