// Encodes text to tokens, through all stages of a tokenizer.json.
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

/// Added tokens are cut out of the text. The text between them is normalized, searched for added tokens once more and
/// cut into words, and each word is encoded. Immutable. Threads: any; scratch memory belongs to the calling thread.
class Encoder {
 public:
  Encoder(Normalizer normalizer, PreTokenizer pre_tokenizer, BpeModel model, const std::vector<AddedToken>& added);

  /// Appends the tokens of plain text, without looking for added tokens.
  void encode_plain(std::string_view text, std::vector<TokenId>& out) const;
  /// Appends the tokens of a text, with added tokens where they touch no mark.
  void encode_marked(std::string_view text, const std::vector<Range>& marks, std::vector<TokenId>& out) const;

  /// The least distance between a place between words and the place before it, in bytes.
  static constexpr std::size_t kBetweenCuts = 1024;

  /// Appends places where the text may be cut: the beginnings of added tokens, because the text on either side of one
  /// is encoded independently, and, with a pre-tokenizer that allows it, some places between a letter and white space.
  /// A place depends only on the text before it and the byte after it. There are none in a text that is not valid
  /// UTF-8.
  void cut_places(std::string_view text, const std::vector<Range>& marks, std::vector<std::size_t>& out) const;

  /// Whether the marks may prevent an added token from being found. Tokens of normalized text are not searched for
  /// here; if there are any, every mark counts.
  [[nodiscard]] bool marks_matter(std::string_view text, const std::vector<Range>& marks) const;

  [[nodiscard]] const TokenTable& vocabulary() const { return model_.vocabulary(); }

 private:
  struct Memory;
  [[nodiscard]] Memory& memory() const;
  static void cut_between_words(std::string_view text, std::size_t begin, std::size_t end, std::size_t last,
                                std::vector<std::size_t>& out);
  void encode_normalized(std::string_view text, bool begins_document, Memory& memory, std::vector<TokenId>& out) const;

  std::uint64_t
      serial_;  // identifies this encoder in the process, so that a thread's cache is used for one encoder only
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  AddedTokenFinder raw_tokens_;         // searched for in the original text
  AddedTokenFinder normalized_tokens_;  // searched for after normalization
  bool may_cut_between_words_ = false;
};

}  // namespace kvist::tokenizer
