// Maps texts to token ids and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::tokenizer {

/// A vocabulary: at most one text per id, at most one id per text. All texts are in one block of memory. A look-up by
/// text takes a hash and usually one comparison. Ids may have gaps.
class TokenTable {
 public:
  /// Returns false if the id or the text is taken. Requires: the text is not empty.
  bool add(TokenId id, std::string_view text);
  [[nodiscard]] std::optional<TokenId> find(std::string_view text) const;
  /// The text of an id; empty if there is none.
  [[nodiscard]] std::string_view text(TokenId id) const;
  [[nodiscard]] bool contains(TokenId id) const { return !text(id).empty(); }
  /// One more than the largest id.
  [[nodiscard]] std::uint32_t end_id() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFF'FFFF;
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };

  [[nodiscard]] std::size_t slot_of(std::string_view text) const;
  void grow();

  std::string texts_;
  std::vector<Place> places_;         // by id
  std::vector<std::uint32_t> slots_;  // ids; a power of two of slots, at most half of them used
  std::size_t size_ = 0;
};

}  // namespace kvist::tokenizer
