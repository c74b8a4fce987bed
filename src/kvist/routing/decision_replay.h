// Decides a recorded decision again.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvist/routing/decision_record.h"

namespace kvist::routing {

/// Keeps one policy per mode, so that many records cost little. Pure; one thread.
class DecisionReplay {
 public:
  enum class Outcome : std::uint8_t {
    kSame,
    kOther,
    kPartial,  ///< not decided again: some candidates were left out of the record
  };
  struct Result {
    Outcome outcome = Outcome::kSame;
    WorkerId worker;                         ///< what the policy chose now; the recorded worker where it was not asked
    std::vector<Candidate> candidates = {};  ///< with the costs of now
  };

  /// Gives the record's policy its state, seed, query and candidates. The record is one that read_decisions() or
  /// DecisionLog gave.
  [[nodiscard]] Result decide(const DecisionRecord& record);

 private:
  struct Policy {
    std::uint64_t seed = 0;
    std::unique_ptr<RoutingPolicy> policy;
  };
  std::array<Policy, spec::kRoutingModeCount> policies_;  // by mode
};

}  // namespace kvist::routing
