// Tools in a chat request. Private to the module: it shows simdjson's types.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/json_object_impl.h"
#include "kvist/openai/types.h"
#include "kvist/text/chat.h"

namespace kvist::openai {

/// name, tool_call_id and tool_calls of a message. Read for routing, what is not as the API has it is passed over: the
/// server that answers says so.
[[nodiscard]] Result<void> read_tool_fields(const JsonObject& message, ReadFor purpose, text::ChatMessage& into);

/// tools, documents, chat_template_kwargs, reasoning_effort, add_generation_prompt and continue_final_message.
[[nodiscard]] Result<void> read_prompt_fields(const JsonObject& request, ReadFor purpose, ChatPrompt& into);

/// tool_choice and parallel_tool_calls, behind read_prompt_fields(). A choice that only constrained output can keep is
/// refused: kInvalidArgument.
[[nodiscard]] Result<void> read_tool_choice(const JsonObject& request, ChatRequest& into);

}  // namespace kvist::openai
