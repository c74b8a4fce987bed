// Bodies of requests and answers as JSON. Private to the module.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/json.h"

namespace kvist::openai {

/// The greatest nesting of a body; real ones need about 10.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// Larger bodies are refused before they are parsed.
inline constexpr std::size_t kMaxJsonBytes = 64UL << 20;

/// A parsed body. Its values are valid during its lifetime and until the same thread parses another body.
class JsonBody {
 public:
  /// The body's object; kInvalidArgument if it is not a JSON object.
  [[nodiscard]] Result<JsonObject> parse(std::string_view body);

 private:
  std::optional<JsonDocument> own_;  // for large bodies, so that no thread keeps their memory
};

}  // namespace kvist::openai
