#include "kvist/worker/cache_compaction.h"

#include <cstdint>
#include <span>

#include "kvist/base/check.h"
#include "kvist/kv/kv_event_codec.h"

namespace kvist::worker {

void CacheCompaction::take(const std::string& payload) {
  const auto decoded =
      kv::decode_kv_events(std::span(reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()));
  KVIST_CHECK(decoded && decoded->skipped_events == 0, "a worker's own KV events can be read");
  timestamp_s_ = decoded->batch.timestamp_s;
  content_.apply(decoded->batch.events);
}

std::string CacheCompaction::message() const {
  if (!content_.possible()) return {};
  return kv::encode_kv_events({.timestamp_s = timestamp_s_, .events = content_.events(), .data_parallel_rank = {}});
}

}  // namespace kvist::worker
