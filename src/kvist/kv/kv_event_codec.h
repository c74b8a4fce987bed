// KV event batches to msgpack and back: every published variant is read, the newest vLLM form is written.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/error.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// Newest vLLM form: array envelope [ts, events, rank], each event a map with "type"; hashes as unsigned integers.
[[nodiscard]] std::string encode_kv_events(const KvEventBatch& batch);

/// A decoded batch and what of it could not be used: counted, never a reason to drop the rest.
struct DecodedKvEvents {
  KvEventBatch batch;
  std::uint32_t skipped_events = 0;  ///< unknown tag or undecodable content
  std::string first_problem;         ///< why the first of them was skipped
};

/// Decodes any of the variants (array or map envelope, tagged array or tagged map events, integer or 32-byte hashes,
/// missing or additional trailing fields). An error only where the envelope itself is broken. Input is hostile: bounded
/// by its own size.
[[nodiscard]] Result<DecodedKvEvents> decode_kv_events(std::span<const std::uint8_t> payload);

}  // namespace kvist::kv
