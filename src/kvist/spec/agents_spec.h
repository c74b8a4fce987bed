// Other machines that drive the load of a live sweep.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvist::spec {

/// The most agents of a load.
inline constexpr std::size_t kMaxAgents = 256;

/// Agents (`kvist loadgen agent`) that drive the levels, each a part of the conversations, in place of this process.
struct AgentsSpec {
  std::vector<std::string> urls;  ///< host:port, http://host:port or https://host:port; empty: this process drives
  std::string key_file = {};      ///< its first line is sent to them as a bearer token
  std::string ca = {};            ///< PEM file of the authorities of their certificates

  [[nodiscard]] bool are_given() const { return !urls.empty(); }
  bool operator==(const AgentsSpec&) const = default;
};

}  // namespace kvist::spec
