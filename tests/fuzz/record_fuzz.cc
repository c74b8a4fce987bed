// fuzz: workload
// The reader of records of traffic: any bytes give requests in the order of arrival that follow earlier ones, or an
// error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "kvist/base/check.h"
#include "kvist/workload/recorded_traffic.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const auto traffic = kvist::workload::parse_record(text, "fuzz");
  if (!traffic) return 0;
  const auto& requests = traffic->trace.requests;
  KVIST_CHECK(requests.size() == traffic->observed.size(), "each request was observed");
  for (std::size_t i = 0; i < requests.size(); ++i) {
    KVIST_CHECK(i == 0 || requests[i - 1].at <= requests[i].at, "in the order of arrival");
    if (!requests[i].after) continue;
    KVIST_CHECK(requests[i].after->request < i, "after an earlier one");
    KVIST_CHECK(requests[i].after->pause >= kvist::Duration{}, "with a pause");
  }
  return 0;
}
