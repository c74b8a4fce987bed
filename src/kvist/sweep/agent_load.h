// The load of a level, driven by agents on other machines.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/agents/level_order.h"
#include "kvist/loadgen/agents/remote_load.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/spec/agents_spec.h"
#include "kvist/sweep/level_load.h"
#include "kvist/sweep/loop_thread.h"
#include "kvist/workload/load_input.h"

namespace kvist::sweep {

struct AgentLoadOptions {
  spec::AgentsSpec agents;
  loadgen::LevelOrder order;
  workload::LoadInput input = {};  ///< of that load
  Duration window{};               ///< of snapshots
  std::function<void(std::string_view line)> progress;
  std::stop_token stop = {};                       ///< ends the wait for the agents
  std::shared_ptr<loadgen::LoadWatch> watch = {};  ///< is attached to the load; null: nobody looks at it
};

/// Coordinates the agents from a loop of its own. One load, started once, with the order's level and seed: raise() is
/// refused. Snapshots are made of the agents' last ten seconds until complete() makes them of all samples.
class AgentLoad final : public LevelLoad {
 public:
  /// Waits until all agents are ready to start. One that drives another load is waited for as long as it would keep a
  /// load whose coordinator is gone. Errors: agents that are not there, of another version, would drive another load,
  /// or cannot reach the target.
  [[nodiscard]] static Result<std::unique_ptr<AgentLoad>> create(AgentLoadOptions options);
  /// Breaks off turns in flight; agents that answer are told.
  ~AgentLoad() override;
  AgentLoad(const AgentLoad&) = delete;
  AgentLoad& operator=(const AgentLoad&) = delete;

  [[nodiscard]] Result<std::optional<TimePoint>> start(std::uint32_t concurrency, std::uint64_t seed) override;
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency) override;
  [[nodiscard]] std::future<void> stop(bool drain) override;
  [[nodiscard]] Result<std::uint32_t> in_flight() override;
  [[nodiscard]] Result<workload::Snapshot> snapshot() override;
  [[nodiscard]] Result<loadgen::ClientLoad> client_load() override;
  [[nodiscard]] Result<std::vector<workload::TurnSample>> take_samples() override;
  [[nodiscard]] Result<void> check_alive() override;
  [[nodiscard]] Result<void> complete(results::LevelRecord& record) override;

 private:
  explicit AgentLoad(AgentLoadOptions options) : options_(std::move(options)) {}
  [[nodiscard]] Result<void> open(const loadgen::RemoteLoadOptions& remote);
  [[nodiscard]] Result<void> open_once(const loadgen::RemoteLoadOptions& remote, TimePoint deadline);

  const AgentLoadOptions options_;
  std::unique_ptr<loadgen::RemoteLoad> load_;  // made, used and destroyed on the loop's thread
  LoopThread thread_;
};

/// Refuses a target of the loopback interface for an agent on another machine.
[[nodiscard]] Result<void> check_reach(const std::vector<std::string>& agents, const std::string& target);

}  // namespace kvist::sweep
