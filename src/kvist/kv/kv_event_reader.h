// One KV event from msgpack, in any of the published forms. Private to the codec.
#pragma once

#include <cstdint>
#include <span>

#include "kvist/base/error.h"
#include "kvist/kv/field_counts.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// An event, and its fields that have no meaning here.
struct ReadKvEvent {
  KvEvent event;
  FieldCounts unknown_fields = {};
};

/// Reads a tagged array or a tagged map. `value` is one complete msgpack value of any kind. The error says which event
/// and which field cannot be used, and why.
[[nodiscard]] Result<ReadKvEvent> read_kv_event(std::span<const std::uint8_t> value);

}  // namespace kvist::kv
