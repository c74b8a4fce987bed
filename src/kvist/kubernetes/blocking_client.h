// Calls to the API server from a thread without a loop.
#pragma once

#include <memory>
#include <string>

#include "kvist/kubernetes/api_error.h"
#include "kvist/kubernetes/api_request.h"
#include "kvist/kubernetes/cluster_access.h"

namespace kvist::kubernetes {

/// Threads: one.
class BlockingClient {
 public:
  /// Errors: certificates that cannot be read.
  [[nodiscard]] static Result<BlockingClient> create(ClusterAccess access);

  /// The body of a successful answer.
  [[nodiscard]] ApiResult<std::string> call(net::HttpRequest request, Duration timeout) const;
  [[nodiscard]] const ClusterAccess& access() const { return access_; }

 private:
  BlockingClient(ClusterAccess access, std::shared_ptr<net::TlsClient> tls)
      : access_(std::move(access)), tls_(std::move(tls)) {}

  ClusterAccess access_;
  std::shared_ptr<net::TlsClient> tls_;
};

}  // namespace kvist::kubernetes
