// fuzz: workload
// The readers of records of traffic, kvist's and Dynamo's: any bytes give requests in the order of arrival that follow
// earlier ones, or an error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/workload/dynamo_trace.h"
#include "kvist/workload/recorded_traffic.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  const bool is_dynamos = kvist::workload::is_dynamo_trace(std::string_view(text).substr(0, text.find('\n')));
  const auto traffic =
      is_dynamos ? kvist::workload::parse_dynamo_trace(text, "fuzz") : kvist::workload::parse_record(text, "fuzz");
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
