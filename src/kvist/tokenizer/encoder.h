// From text to tokens through all stages of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/tokenizer/added_tokens.h"
#include "kvist/tokenizer/bpe_model.h"
#include "kvist/tokenizer/normalizer.h"
#include "kvist/tokenizer/pre_tokenizer.h"

namespace kvist::tokenizer {

/// Added tokens are cut out of the text, what is between them is normalized, cut for added tokens once more, cut into
/// words, and each word encoded. Immutable; any thread may use it: working memory is the calling thread's.
class Encoder {
 public:
  Encoder(Normalizer normalizer, PreTokenizer pre_tokenizer, BpeModel model, const std::vector<AddedToken>& added);

  /// Appends the tokens of plain text, without looking for added tokens.
  void encode_plain(std::string_view text, std::vector<TokenId>& out) const;
  /// Appends the tokens of a text, with added tokens where they touch no mark.
  void encode_marked(std::string_view text, const std::vector<Range>& marks, std::vector<TokenId>& out) const;

  /// Of places between words, one is given so many bytes behind the last place at the earliest.
  static constexpr std::size_t kBetweenCuts = 1024;

  /// Appends the places where added tokens begin, what is on both sides of one being encoded by itself, and, with a
  /// pre-tokenizer that allows it, some between a letter and white space. Where they are depends on the text up to
  /// there and the byte behind. None in a text that is no UTF-8.
  void cut_places(std::string_view text, const std::vector<Range>& marks, std::vector<std::size_t>& out) const;

  /// Whether the marks may keep an added token from being found. Those of normalized text are not looked for: then any
  /// mark may.
  [[nodiscard]] bool marks_matter(std::string_view text, const std::vector<Range>& marks) const;

  [[nodiscard]] const TokenTable& vocabulary() const { return model_.vocabulary(); }

 private:
  struct Memory;
  [[nodiscard]] Memory& memory() const;
  static void cut_between_words(std::string_view text, std::size_t begin, std::size_t end, std::size_t last,
                                std::vector<std::size_t>& out);
  void encode_normalized(std::string_view text, bool begins_document, Memory& memory, std::vector<TokenId>& out) const;

  std::uint64_t serial_;  // of this encoder in the process: what a thread's cache belongs to
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  AddedTokenFinder raw_tokens_;         // looked for in the text as it is
  AddedTokenFinder normalized_tokens_;  // looked for after normalization
  bool may_cut_between_words_ = false;
};

}  // namespace kvist::tokenizer
