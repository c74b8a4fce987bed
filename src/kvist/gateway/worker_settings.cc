#include "kvist/gateway/worker_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include "kvist/net/tls.h"

namespace kvist::gateway {
namespace {

constexpr std::size_t kMostKeyBytes = 4'096;

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= kMostKeyBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

Result<std::string> read_worker_key(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", file, std::strerror(errno)));
  std::string text(kMostKeyBytes + 2, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  std::string key = text.substr(0, text.find('\n'));
  while (!key.empty() && (key.back() == '\r' || key.back() == ' ')) key.pop_back();
  if (!is_key(key)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected one key in its first line, of at most {} printable characters without spaces",
                            file, kMostKeyBytes));
  }
  return key;
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
    KVIST_TRY(settings.bearer_key, read_worker_key(source.key_file));
  } else if (const char* const given = std::getenv("KVIST_WORKER_API_KEY"); given != nullptr && *given != '\0') {
    settings.bearer_key = given;
    if (!is_key(settings.bearer_key))
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

Result<std::map<std::string, net::ServerSettings>> worker_settings(const spec::ServedModelSpec& model) {
  std::map<std::string, net::ServerSettings> settings;
  for (const spec::UpstreamSpec& worker : model.workers) {
    KVIST_TRY(net::ServerSettings own, read_settings(settings_source(model, worker)));
    if (!own.bearer_key.empty() || own.tls) settings.emplace(worker.url, std::move(own));
  }
  return settings;
}

}  // namespace kvist::gateway
