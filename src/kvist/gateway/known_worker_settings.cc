#include "kvist/gateway/known_worker_settings.h"

#include <algorithm>
#include <utility>

#include "kvist/net/watched_files.h"

namespace kvist::gateway {

std::vector<KnownWorkerSettings::Known>::iterator KnownWorkerSettings::find(const WorkerSettingsSource& source) {
  return std::ranges::find(known_, source, &Known::source);
}

// The stamps are taken before the files are read, so that a change while they are read is noticed the next time.
Result<net::ServerSettings> KnownWorkerSettings::look_up(const WorkerSettingsSource& source) {
  if (!source.has_files()) return read_settings(source);
  net::FileStamps stamps = net::WatchedFiles::stamps_of(files_of(source));
  const auto found = find(source);
  if (found != known_.end() && found->stamps == stamps) return found->settings;
  KVIST_TRY(net::ServerSettings settings, read_settings(source));
  if (found == known_.end()) {
    net::FileChanges changes(stamps);
    known_.push_back(
        {.source = source, .stamps = std::move(stamps), .settings = settings, .changes = std::move(changes)});
  } else {
    found->stamps = std::move(stamps);
    found->settings = settings;
  }
  return settings;
}

std::vector<KnownWorkerSettings::Change> KnownWorkerSettings::look(const std::vector<WorkerSettingsSource>& in_use,
                                                                   bool ask) {
  std::vector<Change> changes;
  for (const WorkerSettingsSource& source : in_use) {
    const auto known = find(source);
    if (known == known_.end()) continue;
    if (ask) known->changes.ask();
    net::FileStamps stamps = net::WatchedFiles::stamps_of(files_of(source));
    if (!known->changes.look(stamps)) continue;
    Result<net::ServerSettings> settings = read_settings(source);
    if (settings) {
      known->stamps = std::move(stamps);
      known->settings = *settings;
    }
    changes.push_back({.source = source, .settings = std::move(settings)});
  }
  if (known_.size() > kKeptUnused)
    std::erase_if(known_, [&](const Known& known) { return std::ranges::find(in_use, known.source) == in_use.end(); });
  return changes;
}

Result<std::map<std::string, net::ServerSettings>> worker_settings(const spec::ServedModelSpec& model,
                                                                   KnownWorkerSettings& known) {
  std::map<std::string, net::ServerSettings> settings;
  // Those of workers that come later are looked at now, while somebody watches.
  if (model.worker_tls != spec::ClientTlsSpec{}) {
    KVIST_TRY([[maybe_unused]] const net::ServerSettings later,
              known.look_up({.key_file = model.worker_api_key_file, .uses_tls = true, .tls = model.worker_tls}));
  }
  for (const spec::UpstreamSpec& worker : model.workers) {
    KVIST_TRY(net::ServerSettings own, known.look_up(settings_source(model, worker)));
    if (!own.bearer_key.empty() || own.tls) settings.emplace(worker.url, std::move(own));
  }
  return settings;
}

}  // namespace kvist::gateway
