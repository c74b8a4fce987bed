#include "kvist/tokenizer/token_table.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "kvist/base/check.h"

namespace kvist::tokenizer {

// The slot of a text, or the empty one where it would be.
std::size_t TokenTable::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] != kEmpty && this->text(TokenId(slots_[slot])) != text) slot = (slot + 1) & mask;
  return slot;
}

void TokenTable::grow() {
  slots_.assign(std::max<std::size_t>(16, slots_.size() * 2), kEmpty);
  for (std::uint32_t id = 0; id < places_.size(); ++id) {
    if (places_[id].length > 0) slots_[slot_of(text(TokenId(id)))] = id;
  }
}

bool TokenTable::add(TokenId id, std::string_view text) {
  KVIST_CHECK(!text.empty() && texts_.size() + text.size() < std::numeric_limits<std::uint32_t>::max(),
              "a token without text, or 4 GiB of them");
  if (contains(id)) return false;
  if ((size_ + 1) * 2 > slots_.size()) grow();
  const std::size_t slot = slot_of(text);
  if (slots_[slot] != kEmpty) return false;
  if (id.value() >= places_.size()) places_.resize(id.value() + std::size_t{1});
  places_[id.value()] = {static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(text.size())};
  texts_.append(text);
  slots_[slot] = id.value();
  ++size_;
  return true;
}

std::optional<TokenId> TokenTable::find(std::string_view text) const {
  if (size_ == 0 || text.empty()) return std::nullopt;
  const std::uint32_t id = slots_[slot_of(text)];
  if (id == kEmpty) return std::nullopt;
  return TokenId(id);
}

std::string_view TokenTable::text(TokenId id) const {
  if (id.value() >= places_.size()) return {};
  const Place& place = places_[id.value()];
  return std::string_view(texts_).substr(place.begin, place.length);
}

}  // namespace kvist::tokenizer
