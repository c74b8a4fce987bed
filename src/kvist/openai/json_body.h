// Bodies of requests and answers as JSON. Private to the module.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/json.h"

namespace kvist::openai {

/// Nesting that a body may have; real ones need about 10.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// Larger bodies are refused before they are parsed.
inline constexpr std::size_t kMaxJsonBytes = 64UL << 20;

/// A parsed body. Values read from it are valid as long as it lives and until the same thread parses another.
class JsonBody {
 public:
  /// The body's object; kInvalidArgument where it is no JSON object.
  [[nodiscard]] Result<JsonObject> parse(std::string_view body);

 private:
  std::optional<JsonDocument> own_;  // for large bodies, so that no thread keeps their memory
};

}  // namespace kvist::openai
