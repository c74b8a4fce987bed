// Added tokens, which are searched for in the text before anything else: the special tokens, and words added later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/tokenizer/marked_text.h"

namespace kvist {
class JsonValue;
}

namespace kvist::tokenizer {

/// An entry of "added_tokens".
struct AddedToken {
  TokenId id;
  std::string content;
  bool special = false;
  bool single_word = false;  ///< not matched within a longer word
  bool lstrip = false;       ///< includes the white space before it
  bool rstrip = false;       ///< includes the white space after it
  bool normalized = false;   ///< searched for in the normalized text
};

/// Reads the "added_tokens" member.
[[nodiscard]] Result<std::vector<AddedToken>> read_added_tokens(const JsonValue& value);

/// Finds added tokens in a text: leftmost, and of those the longest. Immutable.
class AddedTokenFinder {
 public:
  /// A part of a text: a token, or text between tokens.
  struct Part {
    std::optional<TokenId> token;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Adds `pattern` for a token. Of two tokens with the same pattern the first counts.
  void add(const AddedToken& token, std::string_view pattern);
  [[nodiscard]] bool empty() const { return rules_.empty(); }

  /// Cuts a text into tokens and the text between them. A match that touches a mark does not count; a shorter match at
  /// the same place that touches none does.
  void cut(const MarkedText& text, std::vector<Part>& parts) const;
  /// Whether any match of a pattern touches a mark, so that cut() could give another result without marks. Copies
  /// nothing.
  [[nodiscard]] bool is_kept_from_one(std::string_view text, const std::vector<Range>& marks) const;

 private:
  struct Rule {
    TokenId id;
    bool single_word = false;
    bool lstrip = false;
    bool rstrip = false;
  };
  // A tree of patterns by byte; siblings are a list, since few patterns differ at one place.
  struct Node {
    std::uint32_t child = 0;  // 0: none, because the root is no node's child
    std::uint32_t sibling = 0;
    std::uint32_t rule = kNone;
    char byte = 0;
  };
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  struct Place {
    std::uint32_t rule = kNone;
    std::size_t end = 0;
  };

  [[nodiscard]] std::uint32_t child_of(std::uint32_t node, char byte) const;
  [[nodiscard]] std::size_t next_start(std::string_view text, std::size_t from) const;
  [[nodiscard]] Place longest_at(const MarkedText& text, std::size_t at) const;

  std::vector<Rule> rules_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::string first_bytes_;  // the bytes with which patterns begin, each once
};

}  // namespace kvist::tokenizer
