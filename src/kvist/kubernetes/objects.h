// What kvist needs to know of the cluster's objects.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json.h"

namespace kvist::kubernetes {

/// metadata of any object.
struct ObjectName {
  std::string name_space;
  std::string name;
  std::string resource_version;

  /// By which a watch's events find their object: "namespace/name".
  [[nodiscard]] std::string key() const { return name_space + "/" + name; }
};
[[nodiscard]] Result<ObjectName> read_object_name(const JsonObject& object);

/// An IP address or a DNS name, and nothing else: it goes into a URL.
[[nodiscard]] Result<std::string> read_address(const JsonValue& value);

/// One address behind a Service.
struct Endpoint {
  std::string address;   ///< the first one: the others are the same endpoint's
  std::string pod = {};  ///< that it belongs to; empty: none is named
  bool ready = true;     ///< an absent condition means true, as its documentation says
  bool terminating = false;

  bool operator==(const Endpoint&) const = default;
};

struct EndpointPort {
  std::string name;
  std::uint16_t port = 0;

  bool operator==(const EndpointPort&) const = default;
};

/// discovery.k8s.io/v1. Several slices may belong to one Service, and while endpoints move between them, one may be in
/// two.
struct EndpointSlice {
  std::string address_type;  ///< "IPv4", "IPv6", "FQDN"
  std::vector<EndpointPort> ports;
  std::vector<Endpoint> endpoints;

  bool operator==(const EndpointSlice&) const = default;
};
/// The API allows 1,000 endpoints and 100 ports; more are refused.
[[nodiscard]] Result<EndpointSlice> read_endpoint_slice(const JsonObject& object);

/// The fields of a pod that are read.
struct PodMetadata {
  std::map<std::string, std::string, std::less<>> labels;
  std::map<std::string, std::string, std::less<>> annotations;

  /// The label, or else the annotation, of that name: labels may not contain what names of models contain.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const;
  bool operator==(const PodMetadata&) const = default;
};
/// Takes labels and annotations that begin with "kvist.io/" and no others.
[[nodiscard]] Result<PodMetadata> read_pod_metadata(const JsonObject& object);

}  // namespace kvist::kubernetes
