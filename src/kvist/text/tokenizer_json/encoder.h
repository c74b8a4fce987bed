// From text to tokens through all stages of a tokenizer.json.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/text/tokenizer_json/added_tokens.h"
#include "kvist/text/tokenizer_json/bpe_model.h"
#include "kvist/text/tokenizer_json/normalizer.h"
#include "kvist/text/tokenizer_json/pre_tokenizer.h"

namespace kvist::text::tokenizer_json {

/// Added tokens are cut out of the text, what is between them is normalized, cut for added tokens once more, cut into
/// words, and each word encoded. Immutable; any thread may use it: working memory is the calling thread's.
class Encoder {
 public:
  Encoder(Normalizer normalizer, PreTokenizer pre_tokenizer, BpeModel model, const std::vector<AddedToken>& added);

  /// Appends the tokens of plain text, without looking for added tokens.
  void encode_plain(std::string_view text, std::vector<TokenId>& out) const;
  /// Appends the tokens of a text, with added tokens where they touch no mark.
  void encode_marked(std::string_view text, const std::vector<Range>& marks, std::vector<TokenId>& out) const;

  /// Appends the places where added tokens begin: what is on both sides of one is encoded by itself. None in a text that
  /// is no UTF-8.
  void cut_places(std::string_view text, const std::vector<Range>& marks, std::vector<std::size_t>& out) const;

  [[nodiscard]] const TokenTable& vocabulary() const { return model_.vocabulary(); }

 private:
  struct Memory;
  [[nodiscard]] Memory& memory() const;
  void encode_normalized(std::string_view text, bool begins_document, Memory& memory, std::vector<TokenId>& out) const;

  std::uint64_t serial_;  // of this encoder in the process: what a thread's cache belongs to
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  BpeModel model_;
  AddedTokenFinder raw_tokens_;         // looked for in the text as it is
  AddedTokenFinder normalized_tokens_;  // looked for after normalization
};

}  // namespace kvist::text::tokenizer_json
