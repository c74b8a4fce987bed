// The tokens that a tokenizer puts around a text.
#pragma once

#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"

namespace kvist {
class JsonValue;
}

namespace kvist::tokenizer {

/// The tokens that the "post_processor" of a tokenizer.json puts before and after a single text.
struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;

  /// Ensures: ids of the result are below kMostTokens. The caller checks that its vocabulary has them.
  [[nodiscard]] static Result<PostProcessor> read(const JsonValue& value);
};

}  // namespace kvist::tokenizer
