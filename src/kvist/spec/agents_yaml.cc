#include "kvist/spec/agents_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

/// "host:port", alone or behind http:// or https://, and nothing more.
bool is_agent_address(std::string_view text) {
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    if (text.substr(0, scheme) != "http" && text.substr(0, scheme) != "https") return false;
    text.remove_prefix(scheme + 3);
  }
  return !text.empty() && text.find_first_of("/?#@, \t") == std::string_view::npos;
}

}  // namespace

Result<AgentsSpec> read_agents(const YamlNode& node, const std::string& base_directory) {
  AgentsSpec agents;
  KVIST_TRY(const YamlNode urls, node.require("urls"));
  KVIST_TRY(const auto elements, urls.elements());
  for (const YamlNode& element : elements) {
    KVIST_TRY(std::string url, element.as_string());
    if (!is_agent_address(url)) {
      return std::unexpected(element.error(fmt::format("expected host:port or https://host:port, got \"{}\"", url)));
    }
    if (std::ranges::find(agents.urls, url) != agents.urls.end()) {
      return std::unexpected(element.error(fmt::format("agent {} occurs twice", url)));
    }
    agents.urls.push_back(std::move(url));
  }
  if (agents.urls.empty() || agents.urls.size() > kMaxAgents) {
    return std::unexpected(urls.error(fmt::format("{} agents; want 1 to {}", agents.urls.size(), kMaxAgents)));
  }
  KVIST_TRY_VOID(read_path(node, "key_file", base_directory, agents.key_file));
  KVIST_TRY_VOID(read_path(node, "ca", base_directory, agents.ca));
  KVIST_TRY_VOID(node.finish());
  return agents;
}

void write_agents(YamlWriter& out, const AgentsSpec& agents) {
  if (!agents.are_given()) return;
  out.begin_map("agents").texts("urls", agents.urls);
  if (!agents.key_file.empty()) out.field("key_file", agents.key_file);
  if (!agents.ca.empty()) out.field("ca", agents.ca);
  out.end_map();
}

}  // namespace kvist::spec
