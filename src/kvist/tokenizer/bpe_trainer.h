// Trains tokenizers on text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::tokenizer {

struct BpeTrainerOptions {
  /// The total size: 256 bytes, merges, special tokens.
  std::uint32_t vocabulary_size = 4'096;
  /// Special tokens, which get the last ids, in this order. Each is non-empty and occurs once.
  std::vector<std::string> special_tokens;
  /// The special token that is put before every text that no template wrote; none if empty.
  std::string begin_of_text;
};

/// Trains a byte-level BPE on a text, which is cut into words as in Llama 3. Returns the text of a tokenizer.json,
/// which gives the same tokens here and in Hugging Face's library. The most frequent pair of tokens is merged first,
/// and of equally frequent ones the one with the smaller ids, so that the result is the same on every machine, byte for
/// byte. Errors: too few pairs occur twice. Memory: a few times the distinct words.
[[nodiscard]] Result<std::string> train_byte_level_bpe(std::string_view text, const BpeTrainerOptions& options);

}  // namespace kvist::tokenizer
