// What the gateway's clients have to know of each worker, besides its address.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/net/http_client.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// What the settings of one worker are made of; many workers have the same.
struct WorkerSettingsSource {
  std::string key_file = {};  ///< empty: KVIST_WORKER_API_KEY, if it is set
  bool has_key = true;        ///< false: it is sent none, whatever there is
  bool uses_tls = false;
  spec::ClientTlsSpec tls = {};  ///< used only if `uses_tls`

  /// Whether something has to be read from the disk.
  [[nodiscard]] bool has_files() const { return uses_tls || !key_file.empty(); }
  bool operator==(const WorkerSettingsSource&) const = default;
};
[[nodiscard]] WorkerSettingsSource settings_source(const spec::ServedModelSpec& model,
                                                   const spec::UpstreamSpec& worker);
/// Whether workers without a key of their own are sent one.
[[nodiscard]] bool has_fleet_key(const spec::ServedModelSpec& model);
/// The files that the source names; the system's authorities are not among them.
[[nodiscard]] std::vector<std::string> files_of(const WorkerSettingsSource& source);
/// Reads the files of the source. Errors name the file, never what is in it.
[[nodiscard]] Result<net::ServerSettings> read_settings(const WorkerSettingsSource& source);

}  // namespace kvist::gateway
