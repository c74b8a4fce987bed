#include "kvist/tokenizer/added_tokens.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "kvist/base/json.h"
#include "kvist/tokenizer/limits.h"
#include "kvist/tokenizer/steps.h"
#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer {
namespace {

// Word characters as in Unicode's UTS 18, annex C: alphabetic, marks, decimal digits, connectors, joiners.
bool is_word(std::uint32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word(code_point_at(text, character_before(text, begin)).value)) return false;
  return end == text.size() || !is_word(code_point_at(text, end).value);
}

Result<AddedToken> read_added_token(const JsonValue& value) {
  KVIST_TRY(const JsonObject object, value.as_object());
  AddedToken token;
  KVIST_TRY(const JsonValue id, object.require("id"));
  KVIST_TRY(token.id, read_token_id(id));
  KVIST_TRY(const JsonValue content_at, object.require("content"));
  KVIST_TRY(const std::string_view content, content_at.as_string());
  if (content.empty()) return content_at.wrong("a token without text");
  if (content.size() > kMostTokenBytes) {
    return content_at.unsupported(fmt::format("longer than {} bytes", kMostTokenBytes));
  }
  token.content = content;
  KVIST_TRY(token.special, object.bool_or("special", false));
  KVIST_TRY(token.single_word, object.bool_or("single_word", false));
  KVIST_TRY(token.lstrip, object.bool_or("lstrip", false));
  KVIST_TRY(token.rstrip, object.bool_or("rstrip", false));
  KVIST_TRY(token.normalized, object.bool_or("normalized", !token.special));
  KVIST_TRY_VOID(object.finish());
  return token;
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const JsonValue& value) {
  KVIST_TRY(const JsonArray array, value.as_array());
  std::vector<AddedToken> tokens;
  for (const JsonValue element : array) {
    if (tokens.size() == kMostAddedTokens) return value.unsupported(fmt::format("more than {}", kMostAddedTokens));
    KVIST_TRY(AddedToken token, read_added_token(element));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::uint32_t AddedTokenFinder::child_of(std::uint32_t node, char byte) const {
  std::uint32_t child = nodes_[node].child;
  while (child != 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

void AddedTokenFinder::add(const AddedToken& token, std::string_view pattern) {
  if (pattern.empty()) return;
  if (!first_bytes_.contains(pattern.front())) first_bytes_.push_back(pattern.front());
  std::uint32_t node = 0;
  for (const char byte : pattern) {
    std::uint32_t child = child_of(node, byte);
    if (child == 0) {
      child = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.child = 0, .sibling = nodes_[node].child, .rule = kNone, .byte = byte});
      nodes_[node].child = child;
    }
    node = child;
  }
  if (nodes_[node].rule != kNone) return;
  nodes_[node].rule = static_cast<std::uint32_t>(rules_.size());
  rules_.push_back({token.id, token.single_word, token.lstrip, token.rstrip});
}

std::size_t AddedTokenFinder::next_start(std::string_view text, std::size_t from) const {
  return first_bytes_.size() == 1 ? text.find(first_bytes_.front(), from) : text.find_first_of(first_bytes_, from);
}

AddedTokenFinder::Place AddedTokenFinder::longest_at(const MarkedText& text, std::size_t at) const {
  Place longest;
  std::uint32_t node = 0;
  for (std::size_t end = at; end < text.text.size();) {
    node = child_of(node, text.text[end++]);
    if (node == 0) break;
    if (nodes_[node].rule != kNone && !touches(text.marks, at, end)) longest = {nodes_[node].rule, end};
  }
  return longest;
}

bool AddedTokenFinder::is_kept_from_one(std::string_view text, const std::vector<Range>& marks) const {
  for (std::size_t at = next_start(text, 0); at != std::string_view::npos; at = next_start(text, at + 1)) {
    std::uint32_t node = 0;
    for (std::size_t end = at; end < text.size();) {
      node = child_of(node, text[end++]);
      if (node == 0) break;
      if (nodes_[node].rule != kNone && touches(marks, at, end)) return true;
    }
  }
  return false;
}

// Treats the flags exactly as Hugging Face's library does: a match that fails single_word is skipped as a whole, and
// white space that is part of one token is not taken by the next.
void AddedTokenFinder::cut(const MarkedText& text, std::vector<Part>& parts) const {
  const std::string_view all = text.text;
  parts.clear();
  std::size_t done = 0;
  for (std::size_t at = next_start(all, 0); at != std::string_view::npos;) {
    const Place place = longest_at(text, at);
    if (place.rule == kNone) {
      at = next_start(all, at + 1);
      continue;
    }
    const Rule& rule = rules_[place.rule];
    std::size_t begin = at;
    std::size_t end = place.end;
    at = next_start(all, place.end);
    if (rule.single_word && !stands_alone(all, begin, end)) continue;
    while (rule.lstrip && begin > done) {
      const std::size_t before = character_before(all, begin);
      if (!is_white_space(code_point_at(all, before).value)) break;
      begin = before;
    }
    while (rule.rstrip && end < all.size() && is_white_space(code_point_at(all, end).value)) {
      end += code_point_at(all, end).bytes;
    }
    if (begin > done) parts.push_back({std::nullopt, done, begin});
    parts.push_back({rule.id, begin, end});
    done = end;
  }
  if (done < all.size()) parts.push_back({std::nullopt, done, all.size()});
}

}  // namespace kvist::tokenizer
