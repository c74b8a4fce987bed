// fuzz: telemetry
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/telemetry/exposition.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto page = kvist::telemetry::MetricSamples::parse(text);
  if (!page) return 0;
  for (const auto& sample : page->samples()) {
    KVIST_CHECK(!sample.name.empty(), "");
    KVIST_CHECK(page->sum(sample.name).has_value(), sample.name);
  }
  return 0;
}
