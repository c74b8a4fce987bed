// The files that clients and operators are told apart by: API keys and certificates.
#pragma once

#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/net/watched_files.h"

namespace kvist::gateway {

/// Opens key and certificate files, and reads them again when they change. A file that is not good then changes
/// nothing. Threads: the loop's.
class ExposureFiles {
 public:
  /// Requires: both outlive this object.
  ExposureFiles(SharedParts& shared, net::WatchedFiles& files) : shared_(&shared), files_(&files) {}

  /// Fills in what the shared parts have of keys and TLS. Once, before net::WatchedFiles::start().
  [[nodiscard]] Result<void> open();

 private:
  [[nodiscard]] Result<void> open_ring(const std::string& file, std::unique_ptr<KeyGate>& gate);
  [[nodiscard]] Result<void> open_tls(const spec::ServerTlsSpec& spec, std::shared_ptr<net::TlsServer>& tls);

  SharedParts* shared_;
  net::WatchedFiles* files_;
};

}  // namespace kvist::gateway
