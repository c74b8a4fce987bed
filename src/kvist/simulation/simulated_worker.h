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
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::simulation {

/// Drives an engine as worker/engine_runner.cc and worker/generations.cc do on their loop: input is handled when all
/// that arrives at the same instant is there; at the end of a step its KV events go out, then its tokens. One thread.
class SimulatedWorker {
 public:
  struct Lost {
    std::uint64_t cached_tokens = 0;
    std::uint64_t output_tokens = 0;
  };

  /// Tokenizer, clock and network outlive it.
  SimulatedWorker(WorkerId id, std::unique_ptr<engine::EngineDriver> driver, const tokenizer::ByteTokenizer& tokenizer,
                  VirtualTime& time, Network& network);

  void on_request(engine::Request request);
  void on_abort(TurnId turn);
  void on_wake();
  void on_timer(const Event& event);

  [[nodiscard]] const engine::EngineDriver& driver() const { return *driver_; }
  [[nodiscard]] bool idle() const { return driver_->core().idle(); }
  /// What answers had come to that ended because the client left: nobody hears of it.
  [[nodiscard]] const Lost& lost() const { return lost_; }
  /// The longest step that ended since the last call; zero where none did.
  [[nodiscard]] Duration take_longest_step();

 private:
  void wake();
  void run();
  void arm();
  void send(const std::vector<engine::RequestOutput>& outputs);

  WorkerId id_;
  std::unique_ptr<engine::EngineDriver> driver_;
  const tokenizer::ByteTokenizer* tokenizer_;
  VirtualTime* time_;
  Network* network_;
  bool wake_posted_ = false;
  std::uint64_t armings_ = 0;
  std::optional<TimePoint> armed_;  // when the driver has something to do
  engine::StepOutputs outputs_;     // of the last poll: a member to keep its memory
  TimePoint step_began_;            // of the oldest step under way
  Duration longest_step_{};
  Lost lost_;
};

}  // namespace kvist::simulation
