// GET /v1/models and /v1/models/ID: merges the lists of all workers of all models.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/served_models.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// The model that a path asks about, "/v1/models/ID", with escapes such as %2F decoded; nothing for other paths and for
/// those with a broken escape or a control character.
[[nodiscard]] std::optional<std::string> model_of_path(std::string_view path);

/// Asks all available workers of all models. It does so for every request, because adapters come and go, and with the
/// client's headers. If several workers have an entry, the first one's is used; one with the name of a served model
/// comes from its own workers. Adapters of workers that do not answer now are listed as they were told last. If no
/// worker of a model returns a list, the gateway names the model itself; but if it serves only that one and a worker
/// has refused, the refusal is passed on. Threads: the loop's. The number of requests that are asked about at once is
/// bounded; each has a deadline and ends when its client leaves.
class ModelList {
 public:
  static constexpr std::size_t kMaxRounds = 64;
  static constexpr Duration kTimeout = std::chrono::seconds(2);

  /// Requires: both outlive this object.
  ModelList(SharedParts& shared, const ServedModels& models) : shared_(&shared), models_(&models) {}

  /// The list or, if the path names one, the entry of a model; 404 if there is no such entry.
  /// `lease` is of the client's key, until the answer.
  void answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease = {});

 private:
  struct Round;
  void ask(ServedModel& model, const net::HttpRequest& question, const std::shared_ptr<Round>& round);
  void finish(const std::shared_ptr<Round>& round);

  SharedParts* shared_;
  const ServedModels* models_;
  std::unordered_set<std::shared_ptr<Round>> rounds_;
};

}  // namespace kvist::gateway
