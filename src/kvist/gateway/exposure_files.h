// The files that clients and operators are told apart by: API keys and certificates.
#pragma once

#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/watched_files.h"

namespace kvist::gateway {

/// Opens key and certificate files, and reads them again when they change. A file that is not good then changes
/// nothing. Threads: the loop's.
class ExposureFiles {
 public:
  /// Requires: all outlive this object.
  ExposureFiles(net::EventLoop& loop, SharedParts& shared, net::WatchedFiles& files)
      : loop_(&loop), shared_(&shared), files_(&files) {}

  /// Fills in what the shared parts have of keys and TLS. Once, before net::WatchedFiles::start().
  [[nodiscard]] Result<void> open();

 private:
  [[nodiscard]] Result<void> open_ring(const std::string& file, std::unique_ptr<KeyGate>& gate);
  void read_again(const std::shared_ptr<KeyRing>& ring);
  [[nodiscard]] Result<void> open_tls(const spec::ServerTlsSpec& spec, std::shared_ptr<net::TlsServer>& tls);

  net::EventLoop* loop_;
  SharedParts* shared_;
  net::WatchedFiles* files_;
  std::unique_ptr<ReadingPool> key_reader_;  // null until a file of keys is read again
};

}  // namespace kvist::gateway
