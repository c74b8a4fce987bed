// The "model" member of a tokenizer.json, checked: every merge is of known tokens to a known token.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/tokenizer/bpe_model.h"
#include "kvist/tokenizer/byte_alphabet.h"
#include "kvist/tokenizer/limits.h"
#include "kvist/tokenizer/steps.h"
#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer {
namespace {

/// The two tokens of a merge, written "a b" or ["a", "b"].
Result<std::pair<std::string_view, std::string_view>> read_merge(const JsonValue& value) {
  if (const auto text = value.if_string()) {
    const std::size_t space = text->find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == text->size() ||
        text->find(' ', space + 1) != std::string_view::npos) {
      return value.wrong(fmt::format("{} is not two tokens with a space between them", in_quotes(*text)));
    }
    return std::pair(text->substr(0, space), text->substr(space + 1));
  }
  KVIST_TRY(const JsonArray array, value.as_array());
  std::string_view parts[2];
  std::size_t count = 0;
  for (const JsonValue element : array) {
    if (count == 2) return value.wrong("a list of more than two tokens");
    KVIST_TRY(parts[count], element.as_string());
    ++count;
  }
  if (count < 2) return value.wrong("a list of fewer than two tokens");
  return std::pair(parts[0], parts[1]);
}

// Whether the byte occurs in valid UTF-8.
bool occurs_in_utf8(std::uint32_t byte) {
  return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5);
}

Result<void> refuse_affix(JsonObject& model, std::string_view key) {
  KVIST_TRY(const auto value, model.find(key));
  if (!value) return {};
  KVIST_TRY(const std::string_view affix, value->as_string());
  if (!affix.empty())
    return value->unsupported(fmt::format("{} is not supported, only \"\" or null", in_quotes(affix)));
  return {};
}

}  // namespace

Result<BpeModel> BpeModel::read(const JsonValue& value, bool byte_level,
                                const std::unordered_set<std::string_view>& special) {
  KVIST_TRY(JsonObject object, value.as_object());
  KVIST_TRY(const auto type, object.find("type"));
  if (type) {
    KVIST_TRY(const std::string_view name, type->as_string());
    if (name != "BPE") return type->unsupported(fmt::format("models of type {} are not supported", in_quotes(name)));
  }
  BpeModel model;
  model.byte_level_ = byte_level;
  KVIST_TRY(model.byte_fallback_, object.bool_or("byte_fallback", false));
  KVIST_TRY(model.fuse_unknown_, object.bool_or("fuse_unk", false));
  KVIST_TRY(model.ignore_merges_, object.bool_or("ignore_merges", false));
  KVIST_TRY_VOID(refuse_affix(object, "continuing_subword_prefix"));
  KVIST_TRY_VOID(refuse_affix(object, "end_of_word_suffix"));
  KVIST_TRY(const auto dropout, object.find("dropout"));
  if (dropout) return dropout->unsupported("dropout is for training, not for use");
  KVIST_TRY(const JsonValue vocabulary, object.require("vocab"));
  KVIST_TRY(const JsonValue merges, object.require("merges"));
  KVIST_TRY(const auto unknown, object.find("unk_token"));
  KVIST_TRY_VOID(object.finish());
  KVIST_TRY_VOID(model.read_vocabulary(vocabulary));
  if (unknown) {
    KVIST_TRY(const std::string_view text, unknown->as_string());
    model.unknown_ = model.vocabulary_.find(text);
    if (!model.unknown_) return unknown->wrong(fmt::format("{} is not in the vocabulary", in_quotes(text)));
  }
  KVIST_TRY_VOID(model.find_symbols(vocabulary, value, special));
  KVIST_TRY_VOID(model.read_merges(merges, special));
  model.find_borders();
  return model;
}

Result<void> BpeModel::read_vocabulary(const JsonValue& value) {
  KVIST_TRY(const JsonObject tokens, value.as_object());
  for (const auto [text, at] : tokens) {
    KVIST_TRY(const TokenId id, read_token_id(at));
    if (text.empty()) return at.unsupported("a token without text");
    if (text.size() > kMostTokenBytes) return at.unsupported(fmt::format("longer than {} bytes", kMostTokenBytes));
    if (vocabulary_.contains(id)) {
      return at.wrong(fmt::format("id {} is that of {} too", id.value(), in_quotes(vocabulary_.text(id))));
    }
    if (!vocabulary_.add(id, text)) return at.wrong("the same token twice");
  }
  if (vocabulary_.size() == 0) return value.wrong("a vocabulary without tokens");
  return {};
}

// Finds the symbols that words consist of before merging and, for ignore_merges, the tokens that whole words may be.
Result<void> BpeModel::find_symbols(const JsonValue& vocabulary_at, const JsonValue& model_at,
                                    const std::unordered_set<std::string_view>& special) {
  std::array<bool, 256> has_byte{};
  for (std::uint32_t id = 0; id < vocabulary_.end_id(); ++id) {
    const std::string_view text = vocabulary_.text(TokenId(id));
    if (text.empty() || special.contains(text)) continue;
    std::optional<std::string> word = byte_level_ ? bytes_of_token(text) : std::string(text);
    if (!word) continue;
    if (ignore_merges_) words_.add(TokenId(id), *word);
    if (byte_level_ && word->size() == 1) {
      const auto byte = static_cast<std::uint8_t>(word->front());
      has_byte[byte] = true;
      byte_tokens_[byte] = id;
    } else if (!byte_level_ && code_point_at(text, 0).bytes == text.size()) {
      character_tokens_[CharacterKey(code_point_at(text, 0).value)] = id;
    }
  }
  if (byte_level_) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      if (has_byte[byte] || !occurs_in_utf8(byte)) continue;
      return vocabulary_at.unsupported(fmt::format("byte-level, but no token for byte 0x{:02X}", byte));
    }
    return {};
  }
  if (byte_fallback_) return find_byte_tokens(vocabulary_at);
  if (!unknown_) return model_at.unsupported("neither bytes nor unk_token stand for characters that have no token");
  return {};
}

Result<void> BpeModel::find_byte_tokens(const JsonValue& vocabulary_at) {
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::string text = fmt::format("<0x{:02X}>", byte);
    const auto id = vocabulary_.find(text);
    if (!id) return vocabulary_at.unsupported(fmt::format("byte_fallback, but no token {}", text));
    byte_tokens_[byte] = id->value();
  }
  return {};
}

// Merges to special tokens are left out, because only templates place those.
Result<void> BpeModel::read_merges(const JsonValue& value, const std::unordered_set<std::string_view>& special) {
  KVIST_TRY(const JsonArray array, value.as_array());
  std::size_t count = 0;
  for ([[maybe_unused]] const JsonValue merge : array) ++count;
  if (count > kMostMerges) return value.unsupported(fmt::format("{} merges, more than {}", count, kMostMerges));
  merges_.reserve(count);
  std::uint32_t rank = 0;
  std::string merged;
  for (const JsonValue at : array) {
    KVIST_TRY(const auto parts, read_merge(at));
    const auto [left, right] = parts;
    const auto left_id = vocabulary_.find(left);
    const auto right_id = vocabulary_.find(right);
    if (!left_id || !right_id) {
      return at.wrong(fmt::format("{} is not in the vocabulary", in_quotes(left_id ? right : left)));
    }
    merged.assign(left).append(right);
    const auto result = vocabulary_.find(merged);
    if (!result) return at.wrong(fmt::format("{} is not in the vocabulary", in_quotes(merged)));
    if (!special.contains(merged)) merges_.put(*left_id, *right_id, {rank, result->value()});
    ++rank;
  }
  return {};
}

// SentencePiece's vocabularies write U+2581 for a space, almost only at the beginning of tokens. So a text that no
// pre-tokenizer cuts can be cut before most of them.
void BpeModel::find_borders() {
  const auto marker = code_point_at(kMetaspace, 0).value;
  if (byte_level_ || !character_tokens_.contains(CharacterKey(marker))) return;
  cuts_before_space_ = true;
  for (std::uint32_t id = 0; id < vocabulary_.end_id(); ++id) {
    const std::string_view text = vocabulary_.text(TokenId(id));
    if (text.size() <= kMetaspace.size()) continue;
    for (std::size_t at = text.find(kMetaspace, 1); at != std::string_view::npos; at = text.find(kMetaspace, at + 1)) {
      before_space_.push_back(code_point_at(text, character_before(text, at)).value);
    }
  }
  std::ranges::sort(before_space_);
  const auto repeated = std::ranges::unique(before_space_);
  before_space_.erase(repeated.begin(), repeated.end());
}

}  // namespace kvist::tokenizer
