// read_kubeconfig(), and what it needs.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>

#include "kvist/kubernetes/cluster_access.h"

namespace kvist::kubernetes {
namespace {

/// The mapping under `kind` of the element of the list `list` that has this name.
Result<YamlNode> find_named(const YamlNode& root, std::string_view list, std::string_view kind,
                            const std::string& name) {
  KVIST_TRY(const YamlNode node, root.require(list));
  KVIST_TRY(const auto elements, node.elements());
  for (const YamlNode& element : elements) {
    KVIST_TRY(const YamlNode of, element.require("name"));
    KVIST_TRY(const std::string found, of.as_string());
    if (found == name) return element.require(kind);
  }
  return std::unexpected(node.error(fmt::format("there is no {} \"{}\"", kind, name)));
}

Result<std::string> text_of(const YamlNode& map, std::string_view key) {
  const auto node = map.get(key);
  if (!node || node->is_null()) return std::string();
  return node->as_string();
}

Result<std::string> path_of(const YamlNode& map, std::string_view key, const std::string& base_directory) {
  KVIST_TRY(const std::string text, text_of(map, key));
  if (text.empty() || text.front() == '/') return text;
  return (std::filesystem::path(base_directory) / text).string();
}

/// `key` names a file, `key`-data has its content in base64, which has precedence.
Result<Pem> read_pem(const YamlNode& map, const std::string& key, const std::string& base_directory) {
  Pem pem;
  const std::string in_place = key + "-data";
  KVIST_TRY(const std::string data, text_of(map, in_place));
  if (data.empty()) {
    KVIST_TRY(pem.file, path_of(map, key, base_directory));
    return pem;
  }
  auto text = from_base64(data);
  if (!text) return std::unexpected(map.get(in_place)->error(text.error().message));
  pem.text = *std::move(text);
  return pem;
}

Result<void> read_server(const YamlNode& cluster, ClusterAccess& access) {
  KVIST_TRY(const YamlNode node, cluster.require("server"));
  KVIST_TRY(std::string url, node.as_string());
  while (url.ends_with('/')) url.pop_back();
  const std::size_t scheme = url.find("://");
  if (!url.starts_with("https://") && !url.starts_with("http://"))
    return std::unexpected(node.error(fmt::format("expected https://host:port, got \"{}\"", url)));
  const std::size_t path = url.find('/', scheme + 3);
  if (path != std::string::npos) access.path_prefix = url.substr(path);
  access.server = url.substr(0, path);
  return {};
}

Result<void> read_user(const YamlNode& user, const std::string& base_directory, ClusterAccess& access) {
  for (const std::string_view key : {"exec", "auth-provider", "username", "password"}) {
    if (!user.get(key)) continue;
    Error error =
        user.error(fmt::format("{}: kvist knows token, tokenFile and client certificates; give it a service "
                               "account's token (kubectl create token)",
                               key));
    error.code = ErrorCode::kUnsupported;
    return std::unexpected(std::move(error));
  }
  KVIST_TRY(access.token, text_of(user, "token"));
  KVIST_TRY(access.token_file, path_of(user, "tokenFile", base_directory));
  KVIST_TRY(access.certificate, read_pem(user, "client-certificate", base_directory));
  KVIST_TRY(access.key, read_pem(user, "client-key", base_directory));
  if (access.certificate.is_given() != access.key.is_given())
    return std::unexpected(user.error("client-certificate and client-key belong together, and one of them is missing"));
  return {};
}

}  // namespace

Result<ClusterAccess> read_kubeconfig(const YamlNode& root, const std::string& base_directory,
                                      std::string_view context) {
  std::string wanted(context);
  if (wanted.empty()) {
    KVIST_TRY(wanted, text_of(root, "current-context"));
  }
  if (wanted.empty())
    return std::unexpected(root.error("current-context is missing or empty: which cluster is meant?"));
  KVIST_TRY(const YamlNode chosen, find_named(root, "contexts", "context", wanted));
  KVIST_TRY(const std::string cluster_name, text_of(chosen, "cluster"));
  KVIST_TRY(const std::string user_name, text_of(chosen, "user"));
  ClusterAccess access;
  KVIST_TRY(const std::string name_space, text_of(chosen, "namespace"));
  if (!name_space.empty()) access.name_space = name_space;
  KVIST_TRY(const YamlNode cluster, find_named(root, "clusters", "cluster", cluster_name));
  KVIST_TRY_VOID(read_server(cluster, access));
  KVIST_TRY(access.ca, read_pem(cluster, "certificate-authority", base_directory));
  KVIST_TRY(access.server_name, text_of(cluster, "tls-server-name"));
  if (const auto insecure = cluster.get("insecure-skip-tls-verify")) {
    KVIST_TRY(const bool skip, insecure->as_bool());
    access.verify = !skip;
  }
  if (user_name.empty()) return access;
  KVIST_TRY(const YamlNode user, find_named(root, "users", "user", user_name));
  KVIST_TRY_VOID(read_user(user, base_directory, access));
  return access;
}

Result<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    ++digits;
    if (c == '=') {
      ++padding;
      continue;
    }
    const std::size_t value = kDigits.find(c);
    if (value == std::string_view::npos || padding > 0) return fail(ErrorCode::kInvalidArgument, "expected base64");
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>((bits >> static_cast<unsigned>(held)) & 0xffU));
  }
  if (digits % 4 != 0 || padding > 2) return fail(ErrorCode::kInvalidArgument, "expected base64 with its padding");
  return out;
}

}  // namespace kvist::kubernetes
