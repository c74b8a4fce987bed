// A tokenizer.json, read and checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/tokenizer/added_tokens.h"
#include "kvist/tokenizer/bpe_model.h"
#include "kvist/tokenizer/normalizer.h"
#include "kvist/tokenizer/post_processor.h"
#include "kvist/tokenizer/pre_tokenizer.h"
#include "kvist/tokenizer/token_decoder.h"
#include "kvist/tokenizer/token_table.h"

namespace kvist::tokenizer {

/// The stages that a tokenizer.json describes. Anything unsupported or contradictory is an error, which names its
/// place.
struct Document {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  PostProcessor post_processor;
  TokenDecoder decoder;
  std::vector<AddedToken> added;
  TokenTable spellings;  ///< the vocabulary and the added tokens

  [[nodiscard]] static Result<Document> read(std::string_view json);
};

}  // namespace kvist::tokenizer
