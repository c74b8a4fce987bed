// KV event batches to msgpack and back: every published variant is read, the newest vLLM form is written.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/error.h"
#include "kvist/kv/field_counts.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// Writes vLLM's newest form: the batch is an array [ts, events, rank], each event a map with "type", each hash an
/// unsigned integer. As in vLLM, extra_keys, group_idx and the rank are left out where they say nothing.
[[nodiscard]] std::string encode_kv_events(const KvEventBatch& batch);

/// A decoded batch with memory of its own, and counts of what could not be used (KvEventBatchView).
struct DecodedKvEvents {
  KvEventBatch batch;
  std::uint32_t skipped_events = 0;
  FieldCounts unknown_fields = {};
  std::string first_problem;
};

/// As KvEventDecoder::decode(), for callers that keep the events.
[[nodiscard]] Result<DecodedKvEvents> decode_kv_events(std::span<const std::uint8_t> payload);

}  // namespace kvist::kv
