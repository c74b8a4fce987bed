// KV event batches from msgpack, in one pass: every published variant is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/kv/field_counts.h"
#include "kvist/kv/grow_buffer.h"
#include "kvist/kv/kv_event_view.h"

namespace kvist::kv {

/// A decoded batch, and counts of what could not be used, which is never a reason to drop the rest. Callers show both
/// counts in metrics and log the first problem, because a router that skips events in silence is worse than one that
/// fails.
struct KvEventBatchView {
  double timestamp_s = 0;  ///< Unix time at the publisher
  std::optional<std::int32_t> data_parallel_rank;
  std::span<const KvEventView> events;
  std::uint32_t skipped_events = 0;  ///< unknown tag or undecodable content
  /// What kvist does not use of the used events: map keys by name, trailing elements by place ("BlockStored.14").
  FieldCounts unknown_fields = {};
  std::string first_problem;  ///< why the first event was skipped; empty: none was
};

/// Walks over the bytes of a batch once: the hashes and the tokens of all its events go straight into two flat lists,
/// which are kept from batch to batch, and strings stay where they are in the payload. Therefore the tokens are still
/// in the nearest cache when they are hashed next. Threads: one at a time.
class KvEventDecoder {
 public:
  /// Memory of each list that is kept between batches; a larger one is given back by the next call.
  static constexpr std::size_t kKeptBytes = std::size_t{4} << 20;

  /// Decodes any of the variants (array or map envelope, tagged array or tagged map events, integer or 32-byte hashes,
  /// missing or additional trailing fields). Returns an error (kCorrupt) only if the envelope itself is broken: the
  /// bytes end early or go on too long, or there is no list of events. Input may be hostile, so memory and time are
  /// bounded by its size. The events are valid until the next call, as long as the payload is.
  [[nodiscard]] Result<KvEventBatchView> decode(std::span<const std::uint8_t> payload);

 private:
  class Pass;

  GrowBuffer<ExternalHash> hashes_;
  GrowBuffer<TokenId> tokens_;
  std::vector<KvEventView> events_;
};

}  // namespace kvist::kv
