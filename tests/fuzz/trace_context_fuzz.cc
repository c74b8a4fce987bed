// fuzz: telemetry
// Any text as a traceparent field: what is taken is written back with the same ids, and is not zero.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/telemetry/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace telemetry = kvist::telemetry;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto context = telemetry::parse_trace_parent(text);
  if (!context) return 0;
  KVIST_CHECK(context->span.value != 0 && (context->trace.high != 0 || context->trace.low != 0), "ids are not zero");
  const std::string written = telemetry::to_trace_parent(*context);
  KVIST_CHECK(telemetry::parse_trace_parent(written) == context, "what was written is read back");
  KVIST_CHECK(written.substr(3, 49) == text.substr(3, 49), "the ids are the ones given");
  return 0;
}
