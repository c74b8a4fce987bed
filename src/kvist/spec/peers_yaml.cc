#include "kvist/spec/peers_yaml.h"

#include <fmt/format.h>

#include <string_view>

#include "kvist/spec/exposure_yaml.h"
#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

/// Addresses with commas between them, each with its scheme.
Result<void> check_servers(const YamlNode& node, std::string_view servers) {
  constexpr std::size_t kMost = 16;
  // What may be a password is not repeated; settings are written into logs and results.
  if (servers.contains('@'))
    return std::unexpected(
        node.error("expected nats://host:port or tls://host:port, without a user name, password or token (there are "
                   "credentials_file, token_file, and user with password_file)"));
  std::size_t count = 0;
  for (std::size_t begin = 0; begin <= servers.size(); ++count) {
    const std::size_t end = std::min(servers.find(',', begin), servers.size());
    const std::string_view server = servers.substr(begin, end - begin);
    if ((!server.starts_with("nats://") && !server.starts_with("tls://")) || server.ends_with("//"))
      return std::unexpected(
          node.error(fmt::format("expected nats://host:port or tls://host:port, got \"{}\"", server)));
    begin = end + 1;
  }
  if (count > kMost) return std::unexpected(node.error(fmt::format("more than {} servers", kMost)));
  return {};
}

}  // namespace

Result<void> read_peers(const YamlNode& gateway, const std::string& base_directory, PeersSpec& peers) {
  const auto node = gateway.get("peers");
  if (!node) return {};
  KVIST_TRY(const YamlNode nats, node->require("nats"));
  KVIST_TRY(peers.nats, nats.as_string());
  KVIST_TRY_VOID(check_servers(nats, peers.nats));
  KVIST_TRY_VOID(read_name(*node, "group", peers.group));
  KVIST_TRY_VOID(read_name(*node, "name", peers.name));
  KVIST_TRY_VOID(read_path(*node, "credentials_file", base_directory, peers.credentials_file));
  KVIST_TRY_VOID(read_path(*node, "token_file", base_directory, peers.token_file));
  KVIST_TRY_VOID(read_field(*node, "user", peers.user));
  KVIST_TRY_VOID(read_path(*node, "password_file", base_directory, peers.password_file));
  KVIST_TRY_VOID(read_client_tls(*node, "tls", base_directory, peers.tls));
  KVIST_TRY_VOID(read_field(*node, "patience", peers.patience, std::chrono::milliseconds(1'500)));
  KVIST_TRY_VOID(node->finish());
  if (peers.user.empty() != peers.password_file.empty())
    return std::unexpected(node->error("user and password_file go together"));
  const int ways =
      (peers.credentials_file.empty() ? 0 : 1) + (peers.token_file.empty() ? 0 : 1) + (peers.user.empty() ? 0 : 1);
  if (ways > 1)
    return std::unexpected(node->error("give one of credentials_file, token_file, and user with password_file"));
  return {};
}

void write_peers(YamlWriter& out, const PeersSpec& peers) {
  if (!peers.is_given()) return;
  out.begin_map("peers").field("nats", peers.nats).field("group", peers.group);
  if (!peers.name.empty()) out.field("name", peers.name);
  if (!peers.credentials_file.empty()) out.field("credentials_file", peers.credentials_file);
  if (!peers.token_file.empty()) out.field("token_file", peers.token_file);
  if (!peers.user.empty()) out.field("user", peers.user).field("password_file", peers.password_file);
  write_client_tls(out, "tls", peers.tls);
  out.field("patience", peers.patience).end_map();
}

}  // namespace kvist::spec
