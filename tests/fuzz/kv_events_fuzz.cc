// fuzz: kv
// KV events from any worker: decoding never crashes, and decoded events survive encoding unchanged.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/check.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/kv/kv_event_decoder.h"

namespace {

/// Every item takes a byte at least, so nothing that was read can be larger than the payload.
void check_bounds(const kvist::kv::KvEventBatchView& batch, std::size_t payload_bytes) {
  std::size_t items = batch.events.size() + batch.skipped_events;
  for (const kvist::kv::KvEventView& event : batch.events) items += event.hashes.size() + event.tokens.size();
  KVIST_CHECK(items <= payload_bytes, "more items than bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvist::kv;
  // Memory that earlier payloads left behind must not show.
  static KvEventDecoder used;
  const auto view = used.decode(std::span(data, size));
  const auto decoded = decode_kv_events(std::span(data, size));
  KVIST_CHECK(view.has_value() == decoded.has_value(), "a used decoder reads what a new one reads");
  if (!decoded) return 0;
  check_bounds(*view, size);
  KVIST_CHECK(view->events.size() == decoded->batch.events.size(), "a used decoder finds the same events");
  for (std::size_t i = 0; i < view->events.size(); ++i)
    KVIST_CHECK(copy_of(view->events[i]) == decoded->batch.events[i], "a used decoder reads the same events");
  KVIST_CHECK((decoded->skipped_events == 0) == decoded->first_problem.empty(), "a skipped event has its reason");
  const std::string encoded = encode_kv_events(decoded->batch);
  const auto again = decode_kv_events(std::span(reinterpret_cast<const std::uint8_t*>(encoded.data()), encoded.size()));
  KVIST_CHECK(again.has_value(), again ? "" : again.error().message);
  KVIST_CHECK(again->skipped_events == 0, again->first_problem);
  KVIST_CHECK(again->unknown_fields.empty(), "our own form has no unknown fields");
  KVIST_CHECK(again->batch == decoded->batch, "the batch changed on its way");
  return 0;
}
