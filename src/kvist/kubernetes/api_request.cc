#include "kvist/kubernetes/api_request.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/json_writer.h"

namespace kvist::kubernetes {
namespace {

std::string path_of(const Collection& in) {
  const Resource& resource = in.resource;
  const std::string root = resource.group.empty() ? fmt::format("/api/{}", resource.version)
                                                  : fmt::format("/apis/{}/{}", resource.group, resource.version);
  return fmt::format("{}/namespaces/{}/{}", root, in_query(in.name_space), resource.plural);
}

std::string path_of(const Collection& in, std::string_view name) {
  return fmt::format("{}/{}", path_of(in), in_query(name));
}

net::HttpRequest request(std::string_view method, std::string target) {
  net::HttpRequest made{.method = std::string(method), .target = std::move(target), .headers = {}, .body = {}};
  made.headers.add("Accept", "application/json");
  return made;
}

net::HttpRequest with_body(net::HttpRequest made, std::string_view type, std::string body) {
  made.headers.add("Content-Type", std::string(type));
  made.body = std::move(body);
  return made;
}

std::string selector_of(const Collection& in) {
  std::string selector;
  if (!in.label_selector.empty()) selector += fmt::format("&labelSelector={}", in_query(in.label_selector));
  if (!in.only.empty()) selector += fmt::format("&fieldSelector={}", in_query("metadata.name=" + in.only));
  return selector;
}

}  // namespace

std::string in_query(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

net::HttpRequest get(const Collection& in, std::string_view name) {
  return request("GET", path_of(in, name));
}

net::HttpRequest list(const Collection& in, std::uint32_t limit, std::string_view continue_token) {
  std::string target = fmt::format("{}?limit={}{}", path_of(in), limit, selector_of(in));
  if (!continue_token.empty()) target += fmt::format("&continue={}", in_query(continue_token));
  net::HttpRequest made = request("GET", std::move(target));
  if (in.metadata_only) made.headers.set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
  return made;
}

net::HttpRequest watch(const Collection& in, std::string_view resource_version) {
  net::HttpRequest made =
      request("GET", fmt::format("{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}{}",
                                 path_of(in), kWatchTimeout.count(), in_query(resource_version), selector_of(in)));
  if (in.metadata_only) made.headers.set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
  return made;
}

net::HttpRequest apply(const Collection& in, std::string_view name, std::string manifest, std::string_view manager,
                       bool force) {
  // The server knows JSON by this name too: JSON is YAML.
  return with_body(request("PATCH", fmt::format("{}?fieldManager={}&force={}", path_of(in, name), in_query(manager),
                                                force ? "true" : "false")),
                   "application/apply-patch+yaml", std::move(manifest));
}

net::HttpRequest merge_patch(const Collection& in, std::string_view name, std::string patch, std::string_view manager) {
  return with_body(request("PATCH", fmt::format("{}?fieldManager={}", path_of(in, name), in_query(manager))),
                   "application/merge-patch+json", std::move(patch));
}

net::HttpRequest remove(const Collection& in, std::string_view name) {
  return request("DELETE", path_of(in, name) + "?propagationPolicy=Background");
}

net::HttpRequest may_i(std::string_view verb, const Collection& in) {
  JsonWriter json;
  json.begin_object().field("apiVersion", "authorization.k8s.io/v1").field("kind", "SelfSubjectAccessReview");
  json.key("spec").begin_object().key("resourceAttributes").begin_object();
  json.field("namespace", in.name_space).field("verb", verb).field("group", in.resource.group);
  json.field("resource", in.resource.plural);
  if (!in.only.empty()) json.field("name", in.only);
  json.end_object().end_object().end_object();
  return with_body(request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), "application/json",
                   json.take());
}

net::HttpRequest version() {
  return request("GET", "/version");
}

}  // namespace kvist::kubernetes
