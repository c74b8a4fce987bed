// What a tokenizer puts around a text.
#pragma once

#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"

namespace kvist::tokenizer {

class JsonValue;

/// The tokens that the "post_processor" of a tokenizer.json puts before and behind a single text.
struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;

  /// Ids of the result are below kMostTokens; the caller holds them against its vocabulary.
  [[nodiscard]] static Result<PostProcessor> read(const JsonValue& value);
};

}  // namespace kvist::tokenizer
