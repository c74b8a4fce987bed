// Strong types for identifiers: a WorkerId is never passed where a RequestId is meant.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kvist {

/// An integer with a meaning. `Tag` only tells types apart; ids of one type compare and hash like their value.
template <class Tag, class Rep>
class Id {
 public:
  using Value = Rep;

  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}

  [[nodiscard]] constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;

 private:
  Rep value_{};
};

/// A worker as the gateway numbers it: its position in the deployment, from 0.
using WorkerId = Id<struct WorkerTag, std::uint32_t>;
/// A model that a gateway serves, counted up from 0 in the order in which it came to serve them.
using ModelId = Id<struct ModelTag, std::uint32_t>;
/// A request within one process, counted up from 1.
using RequestId = Id<struct RequestTag, std::uint64_t>;
/// A token of the model's vocabulary.
using TokenId = Id<struct TokenTag, std::uint32_t>;
/// A conversation within one run of the load generator, counted up from 0.
using ConversationId = Id<struct ConversationTag, std::uint64_t>;

}  // namespace kvist

template <class Tag, class Rep>
struct std::hash<kvist::Id<Tag, Rep>> {
  std::size_t operator()(const kvist::Id<Tag, Rep>& id) const noexcept { return std::hash<Rep>{}(id.value()); }
};
