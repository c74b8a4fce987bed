// The load generator in virtual time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/simulation/deadlines.h"
#include "kvist/simulation/messages.h"
#include "kvist/simulation/network.h"
#include "kvist/simulation/step_times.h"
#include "kvist/simulation/turn_table.h"
#include "kvist/simulation/virtual_time.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/turn_clock.h"
#include "kvist/workload/turn_source.h"

namespace kvist::simulation {

/// Receives every turn's beginning and end, to check a run.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;
  virtual void on_turn_started(TimePoint now) = 0;
  virtual void on_turn_ended(const workload::TurnSample& sample, TimePoint now) = 0;
  /// An answer reached its end, with this usage; also for a turn that was abandoned before.
  virtual void on_usage(const Piece& last) = 0;
};

/// Carries out the actions of a TurnSource, like loadgen/service.cc and loadgen/turn_call.cc do over HTTP: with the
/// same source, clock and recorder, called in the same order. Invariant: turns_ has one entry per turn in flight of the
/// source. Threads: one.
class SimulatedLoad {
 public:
  struct Options {
    Duration request_timeout{};
    Duration window{};                      ///< of the recorder
    std::vector<std::string> worker_names;  ///< by WorkerId, as in the gateway's headers
    bool keep_token_gaps = true;            ///< keep the gaps of every turn, which takes 4 bytes per chunk
  };

  /// Requires: all arguments except the options outlive it.
  SimulatedLoad(Options options, workload::TurnSource& source, VirtualTime& time, Network& network,
                TurnObserver& observer);

  void start() { poll(); }
  /// See workload::TurnSource::raise(); the turns that this allows are sent at once.
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency);
  /// Starts no new turn from here on.
  void stop() { source_->stop(); }
  /// Breaks off the turns in flight, as abandoned. Requires: stop() was called.
  void abandon();

  void on_wakeup(const Event& event);
  void on_deadline();
  void on_step(const StepMessage& step);
  void on_refusal(const Refusal& refusal);

  [[nodiscard]] std::uint32_t in_flight() const { return static_cast<std::uint32_t>(turns_.size()); }
  [[nodiscard]] const workload::TurnSource& source() const { return *source_; }
  [[nodiscard]] workload::Recorder& recorder() { return recorder_; }
  [[nodiscard]] std::uint64_t turns_started() const { return last_turn_; }

 private:
  struct Turn {
    workload::TurnClock clock{ConversationId(), 0, TimePoint()};
    std::string reply;
    std::optional<WorkerId> run = {};  // the worker in whose run the answer is
    StepTimes::Reader run_times = {};  // of its chunks there
  };
  // A worker's run, as far as its answers are awaited.
  struct Run {
    std::uint32_t answers = 0;
    StepTimes times;
  };

  [[nodiscard]] TurnId next_turn_id();
  void poll();
  void arm();
  void arm_deadline();
  void launch(std::vector<workload::StartTurn> turns);
  void take_head(const AnswerHead& head);
  void take_end(TurnId id, Turn& turn, const Piece& piece);
  void join_run(Turn& turn, WorkerId worker);
  void leave_run(Turn& turn);
  void forget(TurnId id);
  void finish(TurnId id, workload::TurnOutcome outcome, std::string error);

  Options options_;
  workload::TurnSource* source_;
  VirtualTime* time_;
  Network* network_;
  TurnObserver* observer_;
  workload::Recorder recorder_;
  TurnTable<Turn> turns_;
  std::vector<Run> runs_;  // by WorkerId
  std::vector<std::uint32_t> free_places_;
  Deadlines deadlines_;
  std::uint64_t last_turn_ = 0;
  std::uint64_t armings_ = 0;
  std::optional<TimePoint> armed_;           // when the source is polled next
  std::optional<TimePoint> armed_deadline_;  // when on_deadline() comes next
};

}  // namespace kvist::simulation
