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

/// Asks all available workers of all models. Those who come within a second get the answer of one round, with the
/// headers of the first one's request, unless the models or their names have changed since, or workers get clients'
/// credentials and these differ; adapters come and go, so nobody gets an older one. If several workers have an entry,
/// the first one's is used; one with the name of a served model comes from its own workers. Adapters of workers that do
/// not answer now are listed as they were told last. If no worker of a model returns a list, the gateway names the
/// model itself; but if it serves only that one and a worker has refused, the refusal is passed on. Threads: the
/// loop's. The number of rounds and of those who wait for them is bounded; a round has a deadline and ends when all its
/// clients leave.
class ModelList {
 public:
  static constexpr std::size_t kMaxRounds = 64;
  static constexpr std::size_t kMaxWaiting = 4'096;
  static constexpr Duration kTimeout = std::chrono::seconds(2);
  static constexpr Duration kHolds = std::chrono::seconds(1);

  /// Requires: both outlive this object.
  ModelList(SharedParts& shared, const ServedModels& models) : shared_(&shared), models_(&models) {}

  /// The list or, if the path names one, the entry of a model; 404 if there is no such entry.
  /// `lease` is of the client's key, until the answer.
  void answer(const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease = {});

 private:
  struct Round;
  struct Finished;
  /// What workers are asked for this request.
  [[nodiscard]] net::HttpRequest question_of(const net::HttpRequest& request) const;
  /// What the answer depends on.
  [[nodiscard]] std::string key_of(const net::HttpRequest& question) const;
  /// Whether what began then, with these names, holds now.
  [[nodiscard]] bool holds(TimePoint began, const std::shared_ptr<const ModelNames>& names) const;
  [[nodiscard]] std::shared_ptr<Round> begin(const net::HttpRequest& question, std::string key);
  void ask(ServedModel& model, const net::HttpRequest& question, const std::shared_ptr<Round>& round);
  void finish(const std::shared_ptr<Round>& round);
  [[nodiscard]] Finished merge(Round& round) const;
  /// The client has left: nobody waits for this exchange any more.
  void leave(const std::shared_ptr<Round>& round, const net::HttpExchange* exchange);

  SharedParts* shared_;
  const ServedModels* models_;
  std::unordered_set<std::shared_ptr<Round>> rounds_;  // under way
  std::shared_ptr<const Finished> last_;               // null: none yet
  std::size_t waiting_ = 0;                            // clients, of all rounds
};

}  // namespace kvist::gateway
