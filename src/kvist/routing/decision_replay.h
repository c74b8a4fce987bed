// Repeats recorded decisions.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kvist/routing/decision_record.h"

namespace kvist::routing {

/// Keeps one policy per mode, so that replaying many records is cheap. Threads: one.
class DecisionReplay {
 public:
  enum class Outcome : std::uint8_t {
    kSame,
    kOther,
    kPartial,  ///< not repeated, because the record does not have all candidates
  };
  struct Result {
    Outcome outcome = Outcome::kSame;
    WorkerId worker;                         ///< the policy's choice in the replay, or the recorded one if kPartial
    std::vector<Candidate> candidates = {};  ///< with the costs of the replay
  };

  /// Restores the policy's state and seed from the record and lets it choose again. Requires: the record comes from
  /// read_decisions() or DecisionLog.
  [[nodiscard]] Result decide(const DecisionRecord& record);

 private:
  struct Policy {
    std::uint64_t seed = 0;
    std::unique_ptr<RoutingPolicy> policy;
  };
  std::array<Policy, spec::kRoutingModeCount> policies_;  // by mode
};

}  // namespace kvist::routing
