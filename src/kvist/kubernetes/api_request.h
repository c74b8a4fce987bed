// The verbs of the Kubernetes API as HTTP requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/net/http_types.h"

namespace kvist::kubernetes {

/// A kind of object, as its path names it.
struct Resource {
  std::string_view group;  ///< empty: the core group
  std::string_view version;
  std::string_view plural;
};
inline constexpr Resource kPods{"", "v1", "pods"};
inline constexpr Resource kServices{"", "v1", "services"};
inline constexpr Resource kConfigMaps{"", "v1", "configmaps"};
inline constexpr Resource kDeployments{"apps", "v1", "deployments"};
inline constexpr Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices"};
inline constexpr Resource kInferencePools{"inference.networking.k8s.io", "v1", "inferencepools"};
inline constexpr Resource kDynamoGraphDeployments{"nvidia.com", "v1beta1", "dynamographdeployments"};

/// Where the objects are.
struct Collection {
  Resource resource;
  std::string name_space;
  std::string label_selector = {};  ///< for list and watch; empty: all
  std::string only = {};            ///< for list and watch: the name of the one object that is wanted; empty: all
  /// Only names, labels and annotations are asked for (PartialObjectMetadata), in list and watch.
  bool metadata_only = false;
};

/// How long a watch lasts before the server ends it in order.
inline constexpr std::chrono::seconds kWatchTimeout{300};

[[nodiscard]] net::HttpRequest get(const Collection& in, std::string_view name);
/// A page of at most `limit` objects: the first, or the one that `continue_token` leads to.
[[nodiscard]] net::HttpRequest list(const Collection& in, std::uint32_t limit, std::string_view continue_token);
/// What happens after `resource_version`, with bookmarks.
[[nodiscard]] net::HttpRequest watch(const Collection& in, std::string_view resource_version);
/// Server-side apply: makes the object, or makes `manager` own the fields that `manifest` (JSON) has, which gives up
/// those that it owned before and the manifest lacks. `force`: takes fields from their owners.
[[nodiscard]] net::HttpRequest apply(const Collection& in, std::string_view name, std::string manifest,
                                     std::string_view manager, bool force = false);
/// A merge patch (RFC 7386).
[[nodiscard]] net::HttpRequest merge_patch(const Collection& in, std::string_view name, std::string patch,
                                           std::string_view manager);
/// Dependents are deleted by the garbage collector.
[[nodiscard]] net::HttpRequest remove(const Collection& in, std::string_view name);
/// Asks whether the caller may use `verb` on the collection (authorization.k8s.io/v1 SelfSubjectAccessReview).
[[nodiscard]] net::HttpRequest may_i(std::string_view verb, const Collection& in);
/// The server's version.
[[nodiscard]] net::HttpRequest version();

/// Text as a value of a query.
[[nodiscard]] std::string in_query(std::string_view text);

}  // namespace kvist::kubernetes
