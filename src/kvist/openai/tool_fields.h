// Tools in a chat request. Private to the module.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/types.h"
#include "kvist/text/chat.h"

namespace kvist::openai {

/// Reads name, tool_call_id and tool_calls of a message. For routing, invalid values are ignored, because the worker
/// will refuse them.
[[nodiscard]] Result<void> read_tool_fields(const JsonObject& message, ReadFor purpose, text::ChatMessage& into);

/// Reads tools, documents, chat_template_kwargs, reasoning_effort, add_generation_prompt and continue_final_message.
[[nodiscard]] Result<void> read_prompt_fields(const JsonObject& request, ReadFor purpose, ChatPrompt& into);

/// Reads tool_choice and parallel_tool_calls. Errors: kInvalidArgument for a choice that needs constrained output.
/// Requires: read_prompt_fields() was called before.
[[nodiscard]] Result<void> read_tool_choice(const JsonObject& request, ChatRequest& into);

}  // namespace kvist::openai
