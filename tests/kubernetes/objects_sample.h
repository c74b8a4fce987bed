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

struct SamplePod {
  std::string name;
  std::string address;
  std::string ready = "True";
  std::string phase = "Running";
  bool terminating = false;
  std::string metadata = {};  ///< further fields: R"("labels":{...},)"
};

inline std::string sample_pod(const SamplePod& pod) {
  const std::string deleted = pod.terminating ? R"("deletionTimestamp":"2026-01-01T00:00:00Z",)" : "";
  const std::string address = pod.address.empty() ? "" : fmt::format(R"("podIP":"{}",)", pod.address);
  return fmt::format(R"({{"kind":"Pod","metadata":{{"name":"{}","namespace":"ns",{}{}"resourceVersion":"1"}},)"
                     R"("status":{{"phase":"{}",{}"conditions":[{{"type":"PodScheduled","status":"True"}},)"
                     R"({{"type":"Ready","status":"{}"}}]}}}})",
                     pod.name, pod.metadata, deleted, pod.phase, address, pod.ready);
}

inline std::string sample_pool(const std::string& labels, const std::string& ports) {
  return fmt::format(R"({{"kind":"InferencePool","metadata":{{"name":"llama","namespace":"ns","resourceVersion":"1"}},)"
                     R"("spec":{{"selector":{{"matchLabels":{{{}}}}},"targetPorts":[{}],)"
                     R"("endpointPickerRef":{{"name":"kvist-epp","port":{{"number":9002}}}}}}}})",
                     labels, ports);
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
