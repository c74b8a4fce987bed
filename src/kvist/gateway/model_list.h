// GET /v1/models: the lists of all workers as one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "kvist/dispatch/fleet.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Asks all workers that can be used, each time anew, because adapters come and go, and with the client's own headers,
/// because workers may want its key. The entries of the first worker that has a model stand for it. Where no worker
/// gives a list, the first refusal that came is passed on, and without any the gateway names its model itself. Loop
/// thread only. Bounded: so many rounds at once, each with a deadline, and none for a client that left.
class ModelList {
 public:
  static constexpr std::size_t kMaxRounds = 64;
  static constexpr Duration kTimeout = std::chrono::seconds(2);

  /// The others outlive it. `own`: the answer where no worker gives one.
  ModelList(net::HttpClient& client, const dispatch::Fleet& fleet, const std::vector<spec::UpstreamSpec>& workers,
            std::string own);

  void answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange);

 private:
  struct Round;
  void finish(const std::shared_ptr<Round>& round);

  net::HttpClient* client_;
  const dispatch::Fleet* fleet_;
  const std::vector<spec::UpstreamSpec>* workers_;
  std::string own_;
  std::unordered_set<std::shared_ptr<Round>> rounds_;
};

}  // namespace kvist::gateway
