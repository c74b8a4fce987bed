// fuzz: workload
// The trace reader: any bytes give a trace that is written and read back the same, or an error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kvist/base/check.h"
#include "kvist/workload/recorded_traffic.h"
#include "kvist/workload/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  auto trace = kvist::workload::parse_trace(text, "fuzz");
  if (!trace) return 0;
  for (auto& request : trace->requests)
    if (request.after) request.after->has_answer = true;  // which is not written
  const auto again = kvist::workload::parse_trace(kvist::workload::trace_text(*trace), "again", {},
                                                  {.tokens_per_hash = trace->tokens_per_hash.value_or(0)});
  // A record's lists of ids may have any length.
  KVIST_CHECK(again ? again->requests == trace->requests : kvist::workload::is_record(text),
              "what is written is read back");
  return 0;
}
