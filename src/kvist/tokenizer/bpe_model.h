// Byte-pair encoding: the model of a tokenizer.json.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/tokenizer/merge_table.h"
#include "kvist/tokenizer/token_table.h"
#include "kvist/tokenizer/word_cache.h"

namespace kvist {
class JsonValue;
}

namespace kvist::tokenizer {

/// What stands for a space in the tokens of SentencePiece's models: U+2581.
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

/// Scratch memory of an encoder, reused from call to call. Threads: one per thread.
struct BpeMemory {
  struct Symbol {
    std::uint32_t id = 0;
    std::uint32_t previous = 0;  // indices of the neighbours; kNone at the ends
    std::uint32_t next = 0;
    bool alive = true;
  };
  struct Candidate {
    std::uint32_t rank = 0;
    std::uint32_t at = 0;  // index of the left symbol
    std::uint32_t result = 0;
  };

  WordCache cache;
  std::vector<std::uint32_t> ids;
  std::vector<MergeTable::Merge> merges;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

/// Byte-pair encoding after Sennrich et al. (2016), as in Hugging Face's library: a word begins as its characters (or
/// bytes). Then, of all adjacent pairs that have a merge, the one with the lowest rank is merged, the leftmost of
/// equals. Immutable. Threads: any, each with memory of its own.
class BpeModel {
 public:
  /// Reads the "model" member. `byte_level`: words are bytes, which the vocabulary writes in the byte alphabet.
  /// `special` are tokens that no text may become, though the vocabulary may contain them.
  [[nodiscard]] static Result<BpeModel> read(const JsonValue& value, bool byte_level,
                                             const std::unordered_set<std::string_view>& special);

  /// Appends the tokens of a word. Requires: the word is not empty.
  void encode(std::string_view word, std::vector<TokenId>& out, BpeMemory& memory) const;

  /// The vocabulary as the file spells it, without added tokens.
  [[nodiscard]] const TokenTable& vocabulary() const { return vocabulary_; }

 private:
  struct CharacterKeyTag;
  using CharacterKey = Id<CharacterKeyTag, std::uint32_t>;  // a code point

  [[nodiscard]] Result<void> read_vocabulary(const JsonValue& value);
  [[nodiscard]] Result<void> read_merges(const JsonValue& value, const std::unordered_set<std::string_view>& special);
  [[nodiscard]] Result<void> find_symbols(const JsonValue& vocabulary_at, const JsonValue& model_at,
                                          const std::unordered_set<std::string_view>& special);
  [[nodiscard]] Result<void> find_byte_tokens(const JsonValue& vocabulary_at);
  void find_borders();

  void encode_bordered(std::string_view word, std::vector<TokenId>& out, BpeMemory& memory) const;
  void encode_cached(std::string_view word, std::vector<TokenId>& out, BpeMemory& memory) const;
  void append_symbols(std::string_view word, std::vector<std::uint32_t>& ids) const;
  void merge_short(BpeMemory& memory) const;
  void merge_long(BpeMemory& memory) const;

  TokenTable vocabulary_;
  TokenTable words_;  // for ignore_merges: the tokens by the bytes of the words they stand for
  MergeTable merges_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  std::optional<TokenId> unknown_;
  std::array<std::uint32_t, 256>
      byte_tokens_{};  // byte level: the symbols; byte fallback: the tokens that stand for bytes
  FlatMap<CharacterKey, std::uint32_t> character_tokens_;
  // The characters that precede a U+2581 within some token. Before a U+2581 that follows any other character, words are
  // cut before merging.
  bool cuts_before_space_ = false;
  std::vector<std::uint32_t> before_space_;
};

}  // namespace kvist::tokenizer
