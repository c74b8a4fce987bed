// Objects as an API server writes them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace kvist::kubernetes {

struct SampleEndpoint {
  std::string pod;
  std::string address;
  bool ready = true;
  bool terminating = false;
};

inline std::string sample_slice(const std::string& name, int version, const std::vector<SampleEndpoint>& endpoints,
                                const std::string& type = "IPv4") {
  std::string list;
  for (const SampleEndpoint& endpoint : endpoints) {
    list += fmt::format(R"({}{{"addresses":["{}"],"conditions":{{"ready":{},"serving":{},"terminating":{}}},)"
                        R"("targetRef":{{"kind":"Pod","name":"{}","namespace":"ns"}}}})",
                        list.empty() ? "" : ",", endpoint.address, endpoint.ready, endpoint.ready, endpoint.terminating,
                        endpoint.pod);
  }
  return fmt::format(R"({{"kind":"EndpointSlice","metadata":{{"name":"{}","namespace":"ns","resourceVersion":"{}"}},)"
                     R"("addressType":"{}","ports":[{{"name":"http","port":8000}},{{"name":"kv-events","port":5557}}],)"
                     R"("endpoints":[{}]}})",
                     name, version, type, list);
}

inline std::string sample_page(const std::vector<std::string>& items, int version, const std::string& token = "") {
  std::string list;
  for (const std::string& item : items) list += (list.empty() ? "" : ",") + item;
  // As an API server writes an empty list.
  const std::string written = items.empty() ? "null" : "[" + list + "]";
  return fmt::format(R"({{"metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":{}}})", version, token,
                     written);
}

inline std::string sample_event(const std::string& type, const std::string& object) {
  return fmt::format(R"({{"type":"{}","object":{}}})", type, object);
}

inline std::string sample_bookmark(int version) {
  return sample_event("BOOKMARK", fmt::format(R"({{"metadata":{{"resourceVersion":"{}"}}}})", version));
}

inline const std::string kExpiredEvent =
    R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}})";

}  // namespace kvist::kubernetes
