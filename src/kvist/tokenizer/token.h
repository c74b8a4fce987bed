// Special tokens every tokenizer of the project knows by role.
#pragma once

#include <cstdint>

namespace kvist::tokenizer {

/// Roles of special tokens in a chat prompt. Text never encodes to one of them: only the template places them.
enum class SpecialToken : std::uint8_t {
  kBeginOfText,
  kEndOfTurn,    ///< closes a message; the model ends its answer with it
  kBeginHeader,  ///< before a role name
  kEndHeader,    ///< after a role name
};

}  // namespace kvist::tokenizer
