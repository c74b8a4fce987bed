#include "kvist/gateway/exposure_files.h"

#include <fmt/format.h>

#include <functional>
#include <utility>
#include <vector>

#include "kvist/base/error_context.h"
#include "kvist/exposure/client_listener.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {

Result<void> ExposureFiles::open() {
  KVIST_TRY_VOID(within("gateway.api_keys", open_ring(shared_->spec.api_keys.file, shared_->keys)));
  KVIST_TRY_VOID(
      within("gateway.api_keys.admin_file", open_ring(shared_->spec.api_keys.admin_file, shared_->admin_keys)));
  KVIST_TRY_VOID(within("gateway.tls", open_tls(shared_->spec.tls, shared_->tls)));
  return within("gateway.admin_tls", open_tls(shared_->spec.admin_tls, shared_->admin_tls));
}

Result<void> ExposureFiles::open_ring(const std::string& file, std::unique_ptr<KeyGate>& gate) {
  if (file.empty()) return {};
  net::FileStamps before = net::WatchedFiles::stamps_of({file});
  KVIST_TRY(std::shared_ptr<KeyRing> ring, KeyRing::open(file, net::now()));
  telemetry::log_info("keys", fmt::format("{}: {} keys", file, ring->table()->size()));
  gate = std::make_unique<KeyGate>(ring);
  files_->add({file}, std::move(before), [ring]() -> std::function<void()> {
    return [ring, read = ring->reload(net::now())] {
      if (read) {
        telemetry::log_info("keys", fmt::format("{} was read again: {} keys", ring->file(), ring->table()->size()));
      } else {
        telemetry::log_error("keys", fmt::format("the keys stay as they were: {}", read.error().message));
      }
    };
  });
  return {};
}

Result<void> ExposureFiles::open_tls(const spec::ServerTlsSpec& spec, std::shared_ptr<net::TlsServer>& tls) {
  std::vector<std::string> files = {spec.certificate, spec.key};
  if (!spec.client_ca.empty()) files.push_back(spec.client_ca);
  net::FileStamps before = net::WatchedFiles::stamps_of(files);
  KVIST_TRY(tls, exposure::load_tls(spec));
  if (!tls) return {};
  files_->add(std::move(files), std::move(before), [tls]() -> std::function<void()> {
    return [tls, read = tls->reload()] {
      if (read) {
        telemetry::log_info("tls", fmt::format("{} was read again", tls->options().certificate));
      } else {
        telemetry::log_error("tls", fmt::format("the certificate stays as it was: {}", read.error().message));
      }
    };
  });
  return {};
}

}  // namespace kvist::gateway
