// The component that writes a line of the gateway's log.
#pragma once

#include <string_view>

namespace kvist::gateway::log_component {

inline constexpr std::string_view kFleet = "fleet";         ///< workers: who comes, goes, fails and recovers
inline constexpr std::string_view kFile = "file";           ///< the gateway's file, when it is read again
inline constexpr std::string_view kModels = "models";       ///< models that come and go
inline constexpr std::string_view kKvEvents = "kv-events";  ///< feeds of KV events

}  // namespace kvist::gateway::log_component
