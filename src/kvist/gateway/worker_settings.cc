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

Result<net::ServerSettings> worker_settings(const spec::GatewaySpec& gateway, const spec::UpstreamSpec& worker) {
  net::ServerSettings settings;
  const std::string& key_file = worker.api_key_file.empty() ? gateway.worker_api_key_file : worker.api_key_file;
  if (!key_file.empty()) {
    KVIST_TRY(settings.bearer_key, read_worker_key(key_file));
  } else if (const char* const given = std::getenv("KVIST_WORKER_API_KEY"); given != nullptr && *given != '\0') {
    settings.bearer_key = given;
    if (!is_key(settings.bearer_key))
      return fail(ErrorCode::kInvalidArgument, "KVIST_WORKER_API_KEY has characters that no key may have");
  }
  if (worker.url.starts_with("https://")) {
    const spec::ClientTlsSpec& tls = worker.tls;
    KVIST_TRY(settings.tls,
              net::TlsClient::load(
                  {.ca = tls.ca, .server_name = tls.server_name, .certificate = tls.certificate, .key = tls.key}));
  }
  return settings;
}

Result<std::map<std::string, net::ServerSettings>> worker_settings(const spec::GatewaySpec& gateway) {
  std::map<std::string, net::ServerSettings> settings;
  for (const spec::UpstreamSpec& worker : gateway.workers) {
    KVIST_TRY(net::ServerSettings own, worker_settings(gateway, worker));
    if (!own.bearer_key.empty() || own.tls) settings.emplace(worker.url, std::move(own));
  }
  return settings;
}

}  // namespace kvist::gateway
