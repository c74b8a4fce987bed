#include "kvist/routing/decision_replay.h"

#include "kvist/base/check.h"

namespace kvist::routing {

DecisionReplay::Result DecisionReplay::decide(const DecisionRecord& record) {
  Result result{.worker = record.chosen, .candidates = record.candidates};
  if (record.left_out > 0) {
    result.outcome = Outcome::kPartial;
    return result;
  }
  Policy& kept = policies_.at(static_cast<std::size_t>(record.mode));
  // Some policies take long to make, and a file may have another seed in each record.
  if (kept.policy == nullptr || (kept.seed != record.seed && uses_seed(record.mode))) {
    kept = {.seed = record.seed, .policy = make_policy(record.mode, record.seed)};
  }
  kept.policy->set_state(record.policy_state);
  const std::size_t chosen = kept.policy->choose(record.query(), result.candidates);
  KVIST_CHECK(chosen < result.candidates.size(), "a policy chooses a candidate");
  result.worker = result.candidates[chosen].worker;
  result.outcome = result.worker == record.chosen ? Outcome::kSame : Outcome::kOther;
  return result;
}

}  // namespace kvist::routing
