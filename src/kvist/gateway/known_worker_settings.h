// What the files of workers said when they were read last.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/worker_settings.h"
#include "kvist/net/file_changes.h"
#include "kvist/net/http_client.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Reads files that several workers have in common once, as long as they do not change, and notices when they do.
/// Memory: one entry for each source in use, and some others. Threads: one at a time.
class KnownWorkerSettings {
 public:
  /// The source's settings, of its files as they are now.
  [[nodiscard]] Result<net::ServerSettings> look_up(const WorkerSettingsSource& source);

  struct Change {
    WorkerSettingsSource source;
    Result<net::ServerSettings> settings;
  };
  /// What has changed since these sources were looked up, as far as their files rest since the last look
  /// (net::FileChanges). `ask`: reads all again, even if nothing has changed. Sources that nobody uses may be
  /// forgotten.
  [[nodiscard]] std::vector<Change> look(const std::vector<WorkerSettingsSource>& in_use, bool ask);

 private:
  struct Known {
    WorkerSettingsSource source;
    net::FileStamps stamps;  // from before the settings were read
    net::ServerSettings settings;
    net::FileChanges changes;  // as those know of them who use the source
  };
  [[nodiscard]] std::vector<Known>::iterator find(const WorkerSettingsSource& source);

  /// Beyond so many, those that are not in use are forgotten.
  static constexpr std::size_t kKeptUnused = 64;

  std::vector<Known> known_;
};

/// By URL: what the certificate of an https worker has to be, and the key that is sent to each worker (of its own file,
/// the fleet's, or KVIST_WORKER_API_KEY). Reads the files. Errors name the file, never what is in it.
[[nodiscard]] Result<std::map<std::string, net::ServerSettings>> worker_settings(const spec::ServedModelSpec& model,
                                                                                 KnownWorkerSettings& known);

}  // namespace kvist::gateway
