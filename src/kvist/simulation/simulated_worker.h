// One worker in virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/engine/timed/engine_driver.h"
#include "kvist/simulation/network.h"
#include "kvist/simulation/virtual_time.h"
#include "kvist/spec/simulation_spec.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::simulation {

/// Drives an engine like worker/engine_runner.cc and worker/generations.cc do on their loop: input is handled when
/// everything that arrives at the same instant is there, and at the end of a step its KV events are sent before its
/// tokens.
///
/// Threads: one. Only compute_ahead() may be called on another one, for an instant before which nothing else reads or
/// changes the worker; until told otherwise by on_timer(), which then only sends what came of it, it must be left
/// alone.
class SimulatedWorker {
 public:
  struct Lost {
    std::uint64_t cached_tokens = 0;
    std::uint64_t output_tokens = 0;
  };

  /// Requires: tokenizer, clock and network outlive it.
  SimulatedWorker(WorkerId id, std::unique_ptr<engine::EngineDriver> driver, const tokenizer::ByteTokenizer& tokenizer,
                  VirtualTime& time, Network& network);

  void on_request(engine::Request request);
  void on_abort(TurnId turn);
  void on_wake();
  /// `computed`: compute_ahead() was called for this instant.
  void on_timer(const Event& event, bool computed = false);
  /// Whether on_timer() will have something to do for this event, if nothing else reaches the worker until then.
  [[nodiscard]] bool is_due_at(const Event& event) const { return event.subject == armings_; }
  void compute_ahead(TimePoint at) { compute(at); }
  /// Something becomes of the worker, as the file says. A process that dies loses the answers under way and its cache,
  /// and until it is back it refuses what comes.
  void on_change(const spec::WorkerChange& change);
  /// The new process begins, once nothing of the old one is left.
  void on_back();

  [[nodiscard]] bool is_up() const { return up_; }
  [[nodiscard]] const engine::EngineDriver& driver() const { return *driver_; }
  /// See EngineDriver::look().
  void look(engine::DriverView& view) { driver_->look(view); }
  /// Nothing is under way, and nothing is on its way to the engine's queue.
  [[nodiscard]] bool idle() const { return driver_->core().idle() && !driver_->next_wakeup(); }
  /// The tokens of answers that ended because the client left; no usage reports them.
  [[nodiscard]] const Lost& lost() const { return lost_; }
  /// The longest step that ended since the last call; zero if none did.
  [[nodiscard]] Duration take_longest_step();

 private:
  void die(Duration back_in);
  void wake();
  void run() {
    compute(time_->now());
    tell();
  }
  void compute(TimePoint now);
  void write_step();
  void tell();
  void arm();

  WorkerId id_;
  std::unique_ptr<engine::EngineDriver> driver_;
  const tokenizer::ByteTokenizer* tokenizer_;
  VirtualTime* time_;
  Network* network_;
  bool up_ = true;
  bool wake_posted_ = false;
  std::uint64_t armings_ = 0;
  std::optional<TimePoint> armed_;  // when the driver has something to do
  // What compute() left for tell().
  engine::StepOutputs outputs_;    // of the last poll; a member to reuse its memory
  StepMessage step_;               // what the gateway hears of it
  std::optional<TimePoint> next_;  // when the driver has something to do next
  TimePoint step_began_;           // of the oldest step under way
  Duration longest_step_{};
  Lost lost_;
};

}  // namespace kvist::simulation
