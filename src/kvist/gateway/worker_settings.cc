#include "kvist/gateway/worker_settings.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "kvist/net/bearer_key.h"
#include "kvist/net/tls.h"

namespace kvist::gateway {
namespace {

/// Empty: it is not set.
std::string key_of_environment() {
  const char* const given = std::getenv("KVIST_WORKER_API_KEY");
  return given == nullptr ? "" : given;
}

}  // namespace

bool has_fleet_key(const spec::ServedModelSpec& model) {
  return !model.worker_api_key_file.empty() || !key_of_environment().empty();
}

WorkerSettingsSource settings_source(const spec::ServedModelSpec& model, const spec::UpstreamSpec& worker) {
  WorkerSettingsSource source;
  source.key_file = worker.api_key_file.empty() ? model.worker_api_key_file : worker.api_key_file;
  source.uses_tls = worker.url.starts_with("https://");
  if (source.uses_tls) source.tls = worker.tls;
  return source;
}

std::vector<std::string> files_of(const WorkerSettingsSource& source) {
  std::vector<std::string> files;
  for (const std::string& file : {source.key_file, source.tls.ca, source.tls.certificate, source.tls.key})
    if (!file.empty()) files.push_back(file);
  return files;
}

Result<net::ServerSettings> read_settings(const WorkerSettingsSource& source) {
  net::ServerSettings settings;
  if (!source.key_file.empty()) {
    KVIST_TRY(settings.bearer_key, net::read_bearer_key(source.key_file));
  } else if (std::string given = key_of_environment(); source.has_key && !given.empty()) {
    settings.bearer_key = std::move(given);
    if (!net::is_bearer_key(settings.bearer_key))
      return fail(ErrorCode::kInvalidArgument, "KVIST_WORKER_API_KEY has characters that no key may have");
  }
  if (source.uses_tls) {
    const spec::ClientTlsSpec& tls = source.tls;
    KVIST_TRY(settings.tls,
              net::TlsClient::load(
                  {.ca = tls.ca, .server_name = tls.server_name, .certificate = tls.certificate, .key = tls.key}));
  }
  return settings;
}

}  // namespace kvist::gateway
