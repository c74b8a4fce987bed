// A KV event whose lists lie elsewhere: what a decoder gives and an index takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "kvist/base/id.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// One event. The fields mean what they mean in BlockStored, BlockRemoved and AllBlocksCleared; those that a kind does
/// not have are empty. The view is valid as long as what it was made from: a KvEvent, or a decoder's memory and its
/// payload.
struct KvEventView {
  enum class Kind : std::uint8_t { kStored, kRemoved, kCleared };

  Kind kind = Kind::kCleared;
  Medium medium = Medium::kDevice;
  bool other_extra_keys = false;
  bool names_are_keys = false;
  std::uint32_t block_size = 0;
  std::uint32_t group = 0;
  std::span<const ExternalHash> hashes;
  std::span<const TokenId> tokens;
  std::optional<ExternalHash> parent;
  std::string_view lora_name;
  std::string_view cache_salt;
};

/// Valid as long as the event is.
[[nodiscard]] inline KvEventView view_of(const KvEvent& event) {
  if (const auto* const stored = std::get_if<BlockStored>(&event)) {
    return {.kind = KvEventView::Kind::kStored,
            .medium = stored->medium,
            .other_extra_keys = stored->other_extra_keys,
            .names_are_keys = stored->names_are_keys,
            .block_size = stored->block_size,
            .group = stored->group,
            .hashes = stored->hashes,
            .tokens = stored->tokens,
            .parent = stored->parent,
            .lora_name = stored->lora_name,
            .cache_salt = stored->cache_salt};
  }
  if (const auto* const removed = std::get_if<BlockRemoved>(&event)) {
    return {.kind = KvEventView::Kind::kRemoved,
            .medium = removed->medium,
            .group = removed->group,
            .hashes = removed->hashes,
            .tokens = {},
            .parent = {},
            .lora_name = {},
            .cache_salt = {}};
  }
  return {};
}

/// Returns an event with the same content and its own memory.
[[nodiscard]] inline KvEvent copy_of(const KvEventView& event) {
  switch (event.kind) {
    case KvEventView::Kind::kStored:
      return BlockStored{.hashes = {event.hashes.begin(), event.hashes.end()},
                         .parent = event.parent,
                         .tokens = {event.tokens.begin(), event.tokens.end()},
                         .block_size = event.block_size,
                         .medium = event.medium,
                         .lora_name = std::string(event.lora_name),
                         .cache_salt = std::string(event.cache_salt),
                         .group = event.group,
                         .other_extra_keys = event.other_extra_keys,
                         .names_are_keys = event.names_are_keys};
    case KvEventView::Kind::kRemoved:
      return BlockRemoved{
          .hashes = {event.hashes.begin(), event.hashes.end()}, .medium = event.medium, .group = event.group};
    case KvEventView::Kind::kCleared:
      break;
  }
  return AllBlocksCleared{};
}

}  // namespace kvist::kv
