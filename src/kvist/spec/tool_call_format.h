// How a family of models writes the calls of tools.
#pragma once

#include <cstdint>

namespace kvist::spec {

/// Named as vLLM names its parsers.
enum class ToolCallFormat : std::uint8_t {
  kHermes,      ///< <tool_call>{"name": .., "arguments": {..}}</tool_call>: Hermes 2 and 3, Qwen 2.5 and 3
  kLlama3Json,  ///< {"name": .., "parameters": {..}} as the whole answer: Llama 3.1 and later
  kMistral,     ///< [TOOL_CALLS] [{"name": .., "arguments": {..}}, ..]: Mistral 7B v0.3 to Mistral Small 3
};

}  // namespace kvist::spec
