// fuzz: workload
// The trace reader: any bytes give a trace that is written and read back the same, or an error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kvist/base/check.h"
#include "kvist/workload/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const auto trace = kvist::workload::parse_trace(text, "fuzz");
  if (!trace) return 0;
  const auto again = kvist::workload::parse_trace(kvist::workload::trace_text(*trace), "again");
  KVIST_CHECK(again.has_value() && again->requests == trace->requests, "what is written is read back");
  return 0;
}
