// Which workers serve the gateway's model, by their own lists of models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::dispatch {

/// An entry of a worker's list of models.
struct ServedModel {
  std::string id;
  std::uint32_t max_model_len = 0;  ///< context length in tokens; 0: not reported
  std::string parent = {};          ///< the model that this one is an adapter of; empty: it is none
  std::string root = {};            ///< where its weights are from; may be empty
};

enum class ModelMatch : std::uint8_t {
  kUnknown,  ///< not asked since its process began, or it gives no list
  kSame,     ///< its list has the gateway's model
  kOther,    ///< its list does not
};
/// "unknown", "same", "other"
[[nodiscard]] std::string_view to_string(ModelMatch match);

/// Compares the lists with the gateway's model. A worker that serves another model must not be used: its 404 comes
/// faster than any answer. But if no worker is known to serve the model, the gateway's setting is wrong and not the
/// workers; then all of them are used, and clients get the workers' own answers. What was last known of a worker that
/// is gone is kept, so that the others' wrong model does not become right while it restarts. Threads: one.
class ModelWatch {
 public:
  struct Worker {
    ModelMatch match = ModelMatch::kUnknown;
    std::string served = {};          ///< the first model of its list, for messages
    std::uint32_t max_model_len = 0;  ///< of the gateway's model there; 0: not reported
    std::uint64_t changes = 0;        ///< how often its list said something else than before
    /// The adapters (LoRA) of the gateway's model that it has, sorted by name, each once.
    std::vector<std::string> adapters = {};
  };
  /// An adapter with a longer name is not served.
  static constexpr std::size_t kMaxAdapterNameBytes = 256;

  ModelWatch(std::string model, std::size_t workers) : model_(std::move(model)), workers_(workers) {}

  // Each returns whether match, context length or adapters of the worker changed.
  bool on_list(WorkerId worker, std::span<const ServedModel> models);
  /// The worker was asked and gave no list, so it may be used.
  bool on_no_list(WorkerId worker);

  /// The id belongs to another worker from here on.
  void forget(WorkerId worker) { workers_.at(worker.value()) = {}; }

  /// Whether the worker may be given requests.
  [[nodiscard]] bool is_usable(WorkerId worker) const;
  [[nodiscard]] const Worker& worker(WorkerId worker) const { return workers_.at(worker.value()); }
  /// The longest context of all workers that serve the model; 0: not known.
  [[nodiscard]] std::uint32_t longest_context() const;
  /// All adapters of the model that any worker has, sorted by name, each once.
  [[nodiscard]] std::vector<std::string> adapters() const;
  [[nodiscard]] const std::string& model() const { return model_; }

 private:
  bool change(WorkerId id, Worker now);
  [[nodiscard]] std::vector<std::string> adapters_in(std::span<const ServedModel> models) const;

  std::string model_;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::dispatch
