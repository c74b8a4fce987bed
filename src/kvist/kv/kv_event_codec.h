// KV event batches to msgpack and back: every published variant is read, the newest vLLM form is written.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/error.h"
#include "kvist/kv/field_counts.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// Newest vLLM form: array envelope [ts, events, rank], each event a map with "type"; hashes as unsigned integers. As
/// in vLLM, extra_keys, group_idx and the rank are left out where they say nothing.
[[nodiscard]] std::string encode_kv_events(const KvEventBatch& batch);

/// A decoded batch, and counts of what could not be used; that is never a reason to drop the rest. Owners show both
/// counts in metrics and log the first problem, because a router that skips events in silence is worse than one that
/// fails.
struct DecodedKvEvents {
  KvEventBatch batch;
  std::uint32_t skipped_events = 0;  ///< unknown tag or undecodable content
  /// Of events that were used: map keys by name and trailing elements by place ("BlockStored.14") with no meaning here.
  FieldCounts unknown_fields = {};
  std::string first_problem;  ///< why the first event was skipped; empty: none was
};

/// Decodes any of the variants (array or map envelope, tagged array or tagged map events, integer or 32-byte hashes,
/// missing or additional trailing fields). An error (kCorrupt) only where the envelope itself is broken: bytes that end
/// early or go on too long, no list of events. Input is hostile: memory and time are bounded by its size.
[[nodiscard]] Result<DecodedKvEvents> decode_kv_events(std::span<const std::uint8_t> payload);

}  // namespace kvist::kv
