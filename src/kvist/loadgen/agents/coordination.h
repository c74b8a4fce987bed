// One load on several agents, without the network: who gets which part, when all begin, what they say together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/agents/agent_dialogue.h"
#include "kvist/loadgen/load.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// Consecutive parts of a load for agents with so many threads each: every part is somebody's, and nobody's twice.
[[nodiscard]] std::vector<workload::Shard> divide(const std::vector<std::uint32_t>& threads);

/// Before the start all agents are needed: a load without a part is not the one that was ordered. After it those that
/// are lost are reported, and the others go on. Threads: one.
class Coordination {
 public:
  enum class State : std::uint8_t {
    kPreparing,
    kReady,    ///< all agents are
    kRunning,  ///< also while samples are fetched
    kDone,     ///< every agent has ended or is lost
    kFailed,   ///< error(); every agent is told
  };

  /// Requires: at least one agent, and names that differ. `workload` and `level` are those of the order.
  Coordination(const std::vector<std::string>& names, const CoordinatedLoad& load, spec::WorkloadSpec workload,
               std::uint32_t level);

  /// Takes the next step, if the answers that have come allow it. To be called after each of them.
  void advance();
  [[nodiscard]] State state() const { return state_; }
  /// Of kFailed: why, with the name of the agent.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] std::vector<AgentDialogue>& agents() { return agents_; }
  [[nodiscard]] const std::vector<AgentDialogue>& agents() const { return agents_; }

  /// Begins the load in a moment, which is returned, so that every agent hears of it before; it ends `duration` later.
  /// Requires: kReady.
  [[nodiscard]] TimePoint start(std::optional<Duration> duration, TimePoint now);
  /// Changes it at one instant for all agents, in a moment. Errors: those of Service::change(); not running.
  [[nodiscard]] Result<void> change(const workload::LoadChange& change, TimePoint now);
  /// Sends nothing new; without `drain` breaks off. Before the start the load is given up.
  void stop(bool drain);

  /// Together, by what each said last.
  [[nodiscard]] Progress progress(TimePoint now) const;
  [[nodiscard]] ClientLoad client_load() const;
  [[nodiscard]] workload::HeldBack held_back() const;
  /// Whether every agent that is not lost has sent its last turn by itself.
  [[nodiscard]] bool is_exhausted() const;
  [[nodiscard]] const std::vector<workload::AppliedChange>& changes() const { return changes_; }
  [[nodiscard]] std::uint64_t samples_refused() const;
  /// All that have come, in the order of their ends.
  [[nodiscard]] std::vector<workload::TurnSample> take_samples();
  /// What happened since the last call, in the order of time: as far as it is known of every agent that still drives.
  /// Requires: a load that is watched.
  [[nodiscard]] workload::LoadBatch take_batch();
  [[nodiscard]] workload::RecorderTotals totals() const;
  /// What the load is set to at an instant.
  [[nodiscard]] workload::LoadChange settings(TimePoint now) const;
  /// Threads of all agents.
  [[nodiscard]] std::uint32_t parts() const { return parts_; }

  /// From an order to the instant at which it holds: an agent may be in the middle of a call.
  static constexpr Duration kLead = std::chrono::milliseconds(500);

 private:
  void give_parts();
  void fail_all(Error error);
  [[nodiscard]] Duration lead() const;
  [[nodiscard]] bool all_in(AgentPhase phase) const;

  const spec::WorkloadSpec workload_;
  const std::uint32_t level_;
  std::vector<AgentDialogue> agents_;
  State state_ = State::kPreparing;
  std::optional<Error> error_;
  std::uint32_t parts_ = 0;  // once they were given
  std::vector<workload::AppliedChange> changes_;
};

}  // namespace kvist::loadgen
