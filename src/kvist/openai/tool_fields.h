// Tools in a chat request, as far as the prompt depends on them. Private to the module: it shows simdjson's types.
#pragma once

#include <string>
#include <string_view>

#include "kvist/openai/json_object_impl.h"
#include "kvist/text/chat.h"

namespace kvist::openai {

/// The field as JSON text; empty where it is absent or null, or given twice. What it must hold is its reader's to say.
[[nodiscard]] std::string json_of(const JsonObject& request, std::string_view field);

/// name, tool_call_id and tool_calls of a message. What is not as the API has it is passed over: the server that
/// answers says so.
void read_tool_fields(const JsonObject& message, text::ChatMessage& into);

}  // namespace kvist::openai
