// Decides whether a worker may begin a request now, or the request should wait at the gateway.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "kvist/base/time.h"
#include "kvist/routing/admission_check.h"
#include "kvist/routing/policy.h"
#include "kvist/routing/prompt_keys.h"
#include "kvist/routing/router.h"
#include "kvist/routing/working_set.h"

namespace kvist::dispatch {

/// While the fleet's time goes into prefill, and much of it into what was computed a moment ago, a request waits at the
/// gateway unless it goes on with what is cached at a worker, or fits beside a worker's working set
/// (routing::WorkingSet). Anything else would evict what others are about to come back for, and they in turn what comes
/// after them: all of the fleet's time would go into computing histories anew. An engine's queue is no place to wait
/// for room, because it is first come, first served, and a history is evicted while its request waits there.
///
/// An idle worker takes anything. A worker whose slots are all taken is left to the policy: its requests wait for
/// answers to end, not for memory, and wait best where they begin without a way to go. Of the policy's choice nothing
/// more is asked while the fleet has time to compute what is evicted; another worker has to have room. If not this rule
/// but admission turns the choice down, the other workers are asked as if nobody were held. Valid for one call of
/// Router::route(). Threads: the router's.
class HoldCheck final : public routing::AdmissionCheck {
 public:
  /// From this share of the fleet's time on, going into prefill, requests are held; and as long as others are held,
  /// from the second one on. Beyond memory agents of a closed loop get 3.7 times the turns with 0.8 and 0.6, 4.5 with
  /// 0.7 and 0.5, and 2.3 with 0.8 alone; on traces of agents at 95 % of the capacity p99 is 1.10, 1.38 and not
  /// measured, of mixtures at 80 % 0.96, 1.75 and not measured (two traces each, against holding nothing).
  static constexpr double kBusy = 0.8;
  static constexpr double kStillBusy = 0.6;
  /// From this share of the fleet's time on, going into prompts that were computed before and evicted since, requests
  /// are held, until nobody is. Less can pass by itself, and to wait for room costs more than it saves then: without
  /// this bound long prompts, of which nobody comes back for any, had a TPOT 1.4 times as long at 95 % of the capacity,
  /// and with 0.2 the p99 of mixtures at 80 % was 1.16 times as long, where it is 1.00 now (eight traces).
  static constexpr double kRecomputed = 0.4;
  /// Part of the memory that stays free for answers and for conversations that grow, where all prompts go on with
  /// earlier ones. With 0.05 agents beyond memory get 10 to 20 % fewer turns.
  static constexpr double kReserve = 0.13;

  struct Request {
    std::uint32_t prompt_tokens = 0;
    routing::BlockKeys blocks;
    std::uint32_t block_size = 0;
    double answer_tokens = 0;     ///< that are expected
    double prefill_share = 0;     ///< of the fleet's time lately
    double recomputed_share = 0;  ///< the part of it that goes into what was computed before
    bool others_wait = false;
  };
  /// Requires: the router, which has working sets, outlives this object, as does what is given to the next.
  HoldCheck(routing::Router& router, Request request, TimePoint now)
      : router_(&router), request_(std::move(request)), now_(now) {}
  /// What else has to admit a worker; null: nothing.
  void also(routing::AdmissionCheck* then) { then_ = then; }

  /// Requires: the policy's choice comes first.
  [[nodiscard]] bool admits(const routing::Candidate& candidate) override;
  void on_turned_down(const TurnedDown& request) override {
    if (then_ != nullptr) then_->on_turned_down(request);
  }

  /// Whether some worker was turned down by this rule.
  [[nodiscard]] bool holds() const { return holds_; }
  /// The time to first token without any wait, at the worker where it is the least.
  [[nodiscard]] double service_ms() const { return service_ms_; }

 private:
  [[nodiscard]] bool begins_at(const routing::Candidate& candidate);
  /// Whether the fleet has time to compute what is evicted.
  [[nodiscard]] bool has_time() const;
  [[nodiscard]] bool has_room(const routing::Candidate& candidate);
  [[nodiscard]] bool fits(const routing::Candidate& candidate);
  /// How many of the prompt's blocks are in the worker's working set.
  [[nodiscard]] std::uint32_t depth(WorkerId worker);

  /// Opened when it is asked for: mostly it is not.
  [[nodiscard]] routing::WorkingSet& set();

  routing::Router* router_;
  Request request_;
  TimePoint now_;
  routing::WorkingSet* set_ = nullptr;
  routing::AdmissionCheck* then_ = nullptr;
  bool is_choice_ = true;  // the next candidate is the policy's choice
  bool choice_begins_ = false;
  bool holds_ = false;
  std::optional<std::span<const std::uint32_t>> depths_ = {};
  double service_ms_ = std::numeric_limits<double>::infinity();
};

}  // namespace kvist::dispatch
