#include "kvist/kubernetes/objects.h"

#include <fmt/format.h>

#include <utility>

namespace kvist::kubernetes {
namespace {

constexpr std::size_t kMostEndpoints = 1'000;
constexpr std::size_t kMostPorts = 100;
constexpr std::string_view kOurs = "kvist.io/";
/// Of one of a pod's values that are taken; the API allows annotations of 256 KiB.
constexpr std::size_t kMostValueBytes = 1'024;

Result<Endpoint> read_endpoint(const JsonValue& value) {
  KVIST_TRY(const JsonObject object, value.as_object());
  KVIST_TRY(const JsonArray addresses, object.require_array("addresses"));
  if (addresses.empty()) return object.wrong("addresses", "expected at least one");
  Endpoint endpoint;
  KVIST_TRY(endpoint.address, read_address(*addresses.begin()));
  KVIST_TRY(const auto conditions, object.find_object("conditions"));
  if (conditions) {
    KVIST_TRY(endpoint.ready, conditions->bool_or("ready", true));
    KVIST_TRY(endpoint.terminating, conditions->bool_or("terminating", false));
  }
  KVIST_TRY(const auto target, object.find_object("targetRef"));
  if (!target) return endpoint;
  KVIST_TRY(const auto kind, target->find_string("kind"));
  KVIST_TRY(const auto name, target->find_string("name"));
  if (kind == "Pod" && name) endpoint.pod = *name;
  return endpoint;
}

Result<void> take_ours(const JsonObject& metadata, std::string_view which,
                       std::map<std::string, std::string, std::less<>>& taken) {
  KVIST_TRY(const auto object, metadata.find_object(which));
  if (!object) return {};
  for (const auto [key, value] : *object) {
    if (!key.starts_with(kOurs)) continue;
    KVIST_TRY(const std::string_view text, value.as_string());
    if (text.size() > kMostValueBytes) return value.wrong(fmt::format("expected at most {} bytes", kMostValueBytes));
    taken.emplace(key, text);
  }
  return {};
}

}  // namespace

Result<std::string> read_address(const JsonValue& value) {
  constexpr std::size_t kMostBytes = 253;
  KVIST_TRY(const std::string_view text, value.as_string());
  const bool plain = text.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:-") ==
                     std::string_view::npos;
  if (text.empty() || text.size() > kMostBytes || !plain) return value.wrong("expected an IP address or a DNS name");
  return std::string(text);
}

Result<ObjectName> read_object_name(const JsonObject& object) {
  KVIST_TRY(const JsonObject metadata, object.require_object("metadata"));
  ObjectName read;
  KVIST_TRY(const std::string_view name, metadata.require_string("name"));
  read.name = name;
  KVIST_TRY(const auto name_space, metadata.find_string("namespace"));
  read.name_space = name_space.value_or("");
  KVIST_TRY(const auto version, metadata.find_string("resourceVersion"));
  read.resource_version = version.value_or("");
  return read;
}

Result<EndpointSlice> read_endpoint_slice(const JsonObject& object) {
  EndpointSlice slice;
  KVIST_TRY(const std::string_view type, object.require_string("addressType"));
  slice.address_type = type;
  KVIST_TRY(const auto ports, object.find_array("ports"));
  if (ports) {
    if (ports->size() > kMostPorts) return ports->value().wrong(fmt::format("expected at most {}", kMostPorts));
    for (const JsonValue value : *ports) {
      KVIST_TRY(const JsonObject port, value.as_object());
      KVIST_TRY(const auto name, port.find_string("name"));
      // A port without a number means all ports, of which none can be called.
      KVIST_TRY(const auto number, port.find_unsigned("port", 0, 65'535));
      if (number.value_or(0) == 0) continue;
      slice.ports.push_back({.name = std::string(name.value_or("")), .port = static_cast<std::uint16_t>(*number)});
    }
  }
  KVIST_TRY(const auto endpoints, object.find_array("endpoints"));
  if (!endpoints) return slice;
  if (endpoints->size() > kMostEndpoints)
    return endpoints->value().wrong(fmt::format("expected at most {}", kMostEndpoints));
  for (const JsonValue value : *endpoints) {
    KVIST_TRY(Endpoint endpoint, read_endpoint(value));
    slice.endpoints.push_back(std::move(endpoint));
  }
  return slice;
}

std::optional<std::string_view> PodMetadata::find(std::string_view name) const {
  if (const auto label = labels.find(name); label != labels.end()) return label->second;
  if (const auto annotation = annotations.find(name); annotation != annotations.end()) return annotation->second;
  return std::nullopt;
}

Result<PodMetadata> read_pod_metadata(const JsonObject& object) {
  KVIST_TRY(const JsonObject metadata, object.require_object("metadata"));
  PodMetadata pod;
  KVIST_TRY_VOID(take_ours(metadata, "labels", pod.labels));
  KVIST_TRY_VOID(take_ours(metadata, "annotations", pod.annotations));
  return pod;
}

}  // namespace kvist::kubernetes
