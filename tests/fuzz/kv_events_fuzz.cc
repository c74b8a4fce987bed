// fuzz: kv
// KV events from any worker: decoding never crashes, and decoded events survive encoding unchanged.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/check.h"
#include "kvist/kv/kv_event_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvist::kv;
  const auto decoded = decode_kv_events(std::span(data, size));
  if (!decoded) return 0;
  KVIST_CHECK((decoded->skipped_events == 0) == decoded->first_problem.empty(), "a skipped event has its reason");
  const std::string encoded = encode_kv_events(decoded->batch);
  const auto again = decode_kv_events(std::span(reinterpret_cast<const std::uint8_t*>(encoded.data()), encoded.size()));
  KVIST_CHECK(again.has_value(), again ? "" : again.error().message);
  KVIST_CHECK(again->skipped_events == 0, again->first_problem);
  KVIST_CHECK(again->unknown_fields.empty(), "our own form has no unknown fields");
  KVIST_CHECK(again->batch == decoded->batch, "the batch changed on its way");
  return 0;
}
