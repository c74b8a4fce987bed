// What a cost of mode kv consists of, for people who want to know why a worker was chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/routing/decision_record.h"

namespace kvist::routing {

/// The parts of one candidate's cost, in milliseconds. Their sum is the cost.
struct CostParts {
  WorkerId worker;
  double ttft_ms = 0;          ///< the request's own time to first token
  double queue_ms = 0;         ///< its wait behind other prompts, once more for each further part of its weight
  double occupation_ms = 0;    ///< its prefill, for those who wait in the fleet
  double displaced_ms = 0;     ///< the prefill of the cached prefixes that it displaces, for itself and those who wait
  double recomputed_ms = 0;    ///< what has to be computed again because its prefill evicts it
  double held_up_ms = 0;       ///< for those who will come for the worker's cache while its prefill takes
  double interruption_ms = 0;  ///< for those who decode there while its prefill takes
  double answer_ms = 0;        ///< its answer's steps, and by how much they become longer for the others
  double scarcity_ms = 0;      ///< for a slot or KV memory that are scarce there
  double session_ms = 0;       ///< for leaving the worker of its session

  [[nodiscard]] double sum() const {
    return ttft_ms + queue_ms + occupation_ms + displaced_ms + recomputed_ms + held_up_ms + interruption_ms +
           answer_ms + scarcity_ms + session_ms;
  }
  friend bool operator==(const CostParts&, const CostParts&) = default;
};

/// Why mode kv decided as it did.
struct CostAccount {
  double waiting = 0;            ///< F of KvPolicy
  double most_in_tie = 0;        ///< costs up to this count as equal to the least one
  std::vector<CostParts> parts;  ///< of the recorded candidates, in their order
};
/// Nothing for another mode, for turns that were taken because forecasts were too wrong, and for a record of some
/// candidates that does not say what the fleet was like (DecisionRecord::fleet), because F follows from all of them.
[[nodiscard]] std::optional<CostAccount> account_of(const DecisionRecord& record);

}  // namespace kvist::routing
