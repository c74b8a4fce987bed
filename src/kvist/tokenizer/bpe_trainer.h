// Tokenizers made from text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::tokenizer {

struct BpeTrainerOptions {
  /// All of it: 256 bytes, merges, special tokens.
  std::uint32_t vocabulary_size = 4'096;
  /// They get the last ids, in this order. Not empty, each once.
  std::vector<std::string> special_tokens;
  /// One of the special tokens, which stands before every text that no template wrote; none if empty.
  std::string begin_of_text;
};

/// Trains a byte-level BPE on a text, which is cut into words as Llama 3 does, and gives it as the text of a
/// tokenizer.json that this project and Hugging Face's library read alike. Of the pairs of tokens the most frequent
/// merges first, of equally frequent ones the one with the smaller ids: the result is the same byte for byte wherever
/// it is made. Fails if the text has too few pairs that occur twice. Memory: a few times the distinct words.
[[nodiscard]] Result<std::string> train_byte_level_bpe(std::string_view text, const BpeTrainerOptions& options);

}  // namespace kvist::tokenizer
