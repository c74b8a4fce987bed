// The models that the gateway serves: they come, and go when their requests are over.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/gateway/dns_groups.h"
#include "kvist/gateway/fleet_changes.h"
#include "kvist/gateway/fleet_watch.h"
#include "kvist/gateway/kubernetes_groups.h"
#include "kvist/gateway/model_parts.h"
#include "kvist/gateway/peer_exchange.h"
#include "kvist/gateway/shared_parts.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server_report.h"

namespace kvist::gateway {

/// What has to be read from files before a model can be served.
struct LoadedModel {
  spec::ServedModelSpec spec;
  std::shared_ptr<const text::ModelText> text = {};  ///< null: the byte tokenizer
  std::unique_ptr<RecordWriter> recorder = {};       ///< null: nothing is recorded
  KnownWorkerSettings worker_files = {};             ///< of those workers whose files were read
};
/// Reads the model's files, which takes its time, because a tokenizer may be large. Threads: any.
[[nodiscard]] Result<LoadedModel> load_model(spec::ServedModelSpec spec);

/// One model with all that acts on its fleet. Threads: the loop's.
struct ServedModel {
  ServedModel(net::EventLoop& loop, SharedParts& shared, ModelId id, LoadedModel loaded)
      : parts(shared, id, std::move(loaded.spec), std::move(loaded.text), std::move(loaded.recorder)),
        watch(loop, parts),
        changes(loop, parts, std::move(loaded.worker_files)),
        groups(loop, parts.spec.worker_groups, changes),
        services(loop, parts.spec.worker_groups, parts.spec.model, changes),
        exchange(shared.peers ? std::make_unique<PeerExchange>(loop, *shared.peers, parts) : nullptr) {}

  ModelParts parts;
  FleetWatch watch;
  FleetChanges changes;
  DnsGroups groups;
  KubernetesGroups services;
  std::unique_ptr<PeerExchange> exchange;  ///< with the other gateways; null: there are none
  bool leaves = false;                     ///< clients do not reach it any more
  bool asked = false;                      ///< the loops are being asked whether a request is left
  bool closing = false;                    ///< the loops are giving up its proxies; it is no longer reported
};

/// Owns the models. Threads: the loop's.
class ServedModels {
 public:
  /// Requires: both outlive this object.
  ServedModels(net::EventLoop& loop, SharedParts& shared);
  /// Ends the other loops first: their proxies use the models.
  ~ServedModels();
  ServedModels(const ServedModels&) = delete;
  ServedModels& operator=(const ServedModels&) = delete;

  /// Makes the model without telling any loop of it. Requires: start() was not called.
  void make(LoadedModel loaded);
  /// Opens this loop's door, and those of the other loops, to all models, and begins to watch their workers.
  [[nodiscard]] Result<void> start();

  /// Serves another model from here on. If a model of its name was served before, what an administrator had decided of
  /// that one's workers holds for this one's. Requires: has_to_wait() is false.
  void add(LoadedModel loaded);
  /// The model is not served any more from here on. Its requests have `timeout` to end; then it is gone. Errors:
  /// kNotFound.
  [[nodiscard]] Result<void> remove(std::string_view name, Duration timeout);

  /// Clients may ask for the model under these further names from here on. Requires: no other model has them.
  void set_aliases(ServedModel& model, std::vector<std::string> names);
  /// How long drained workers, and all requests at the end, have time from here on.
  void set_drain_timeout(Duration timeout) { shared_->spec.drain_timeout = timeout; }

  /// Whether a model that leaves has to be gone before this one is added. It has to if it has the same name, because
  /// metrics and administration tell models apart by their names, or if it writes the same record.
  [[nodiscard]] bool has_to_wait(const spec::ServedModelSpec& model) const;
  /// Has `handler` called whenever nothing is left of a model that was removed.
  void on_gone(std::function<void()> handler) { on_gone_ = std::move(handler); }

  /// In the order in which they came, with those that leave, as long as there is something to report of them.
  [[nodiscard]] std::vector<ServedModel*> all() const;
  /// The model with this name or alias; null if none has it or if it leaves.
  [[nodiscard]] ServedModel* find(std::string_view name) const;
  /// The model that has a worker of this name, or had one of which an administrator has decided something; null if none
  /// has.
  [[nodiscard]] ServedModel* find_worker(std::string_view name) const;
  /// All names under which clients may ask for a model; another object whenever there are others.
  [[nodiscard]] const std::shared_ptr<const ModelNames>& names() const { return names_; }
  /// The only model; null if there are several.
  [[nodiscard]] ServedModel* only() const;
  /// The error for a name that no model has.
  [[nodiscard]] Error unknown(std::string_view name) const;
  /// Whether a model has a worker that can take requests.
  [[nodiscard]] bool any_available() const;
  /// Requests that a worker has, of all models.
  [[nodiscard]] std::size_t in_flight() const;
  /// With those that are held.
  [[nodiscard]] std::size_t under_way() const;

  /// What all threads have counted.
  struct Reports {
    std::vector<std::pair<ServedModel*, ModelParts::Reports>> models;
    std::map<int, std::uint64_t> refused;  ///< by status: requests for no model
    net::HttpServerReport listeners;       ///< those for clients on the other loops
  };
  /// Asks all threads and calls `then` on this loop, now or soon.
  void gather_reports(std::function<void(const Reports&)> then);

 private:
  struct Gathering;

  [[nodiscard]] ServedModel& emplace(LoadedModel loaded);
  /// Tells all loops which names there are.
  void publish_names();
  /// Closes the models that leave and have nothing left. As long as a model leaves, it is called again soon.
  void look_whether_left();
  void ask_whether_left(ServedModel& model);
  void close(ServedModel& model);
  void forget(ModelId id);
  [[nodiscard]] ServedModel* of(ModelId id) const;

  /// How many models that are gone are remembered: the last one of each name, and of these the latest.
  static constexpr std::size_t kMostGone = 64;
  struct Gone {
    std::string model;
    dispatch::WorkerHolds holds;
  };

  net::EventLoop* loop_;
  SharedParts* shared_;
  std::vector<std::unique_ptr<ServedModel>> models_;
  std::uint32_t next_ = 0;
  std::shared_ptr<const ModelNames> names_ = std::make_shared<const ModelNames>();
  bool started_ = false;
  net::Timer leaving_timer_;
  std::vector<Gone> gone_;
  std::function<void()> on_gone_ = [] {};
};

}  // namespace kvist::gateway
