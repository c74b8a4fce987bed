// GET /v1/models and /v1/models/ID: merges the lists of all workers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kvist/dispatch/fleet.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// The model that a path asks about, "/v1/models/ID", with escapes such as %2F decoded; nothing for other paths and for
/// those with a broken escape or a control character.
[[nodiscard]] std::optional<std::string> model_of_path(std::string_view path);

/// Asks all available workers. It does so for every request, because adapters come and go, and with the client's
/// headers. If several workers have a model, the first one's entry is used. If no
/// worker returns a list, the first refusal is passed on; without a refusal the gateway names its own model. Threads:
/// the loop's. The number of requests that are asked about at once is bounded; each has a deadline and ends when its
/// client leaves.
class ModelList {
 public:
  static constexpr std::size_t kMaxRounds = 64;
  static constexpr Duration kTimeout = std::chrono::seconds(2);

  /// `own` is the answer if no worker gives one; `aliases` are further names of `model`, which is the gateway's.
  /// Requires: the other arguments outlive this object.
  ModelList(net::HttpClient& client, const dispatch::Fleet& fleet, const std::vector<spec::UpstreamSpec>& workers,
            const std::string& model, const std::vector<std::string>& aliases, std::string own, bool pass_client_keys);

  /// The list or, if the path names one, the entry of a model; 404 if there is no such entry.
  /// `lease` is of the client's key, until the answer.
  void answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease = {});

 private:
  struct Round;
  void finish(const std::shared_ptr<Round>& round);

  net::HttpClient* client_;
  const dispatch::Fleet* fleet_;
  const std::vector<spec::UpstreamSpec>* workers_;
  const std::string* model_;
  const std::vector<std::string>* aliases_;
  std::string own_;
  bool pass_client_keys_;
  std::unordered_set<std::shared_ptr<Round>> rounds_;
};

}  // namespace kvist::gateway
