#include "kvist/kubernetes/blocking_client.h"

#include <utility>

#include "kvist/net/http_client.h"

namespace kvist::kubernetes {

Result<BlockingClient> BlockingClient::create(ClusterAccess access) {
  KVIST_TRY(std::shared_ptr<net::TlsClient> tls, tls_of(access));
  return BlockingClient(std::move(access), std::move(tls));
}

ApiResult<std::string> BlockingClient::call(net::HttpRequest request, Duration timeout) const {
  constexpr int kFirstFailure = 300;
  const auto token = current_token(access_);
  if (!token) return std::unexpected(unreachable(token.error()));
  if (!token->empty()) request.headers.set("Authorization", "Bearer " + *token);
  const std::string url = access_.server + access_.path_prefix + request.target;
  Result<net::HttpResponse> answer =
      tls_
          ? net::fetch_blocking(request.method, url, std::move(request.body), timeout, std::move(request.headers), tls_)
          : net::fetch_blocking(request.method, url, std::move(request.body), timeout, std::move(request.headers));
  if (!answer) return std::unexpected(unreachable(answer.error()));
  if (answer->status >= kFirstFailure) return std::unexpected(error_of(*answer));
  return std::move(answer->body);
}

}  // namespace kvist::kubernetes
