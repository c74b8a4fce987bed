// Refuses requests that would wait too long for their first token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/fair_share.h"
#include "kvist/dispatch/outcome.h"
#include "kvist/dispatch/wait_correction.h"
#include "kvist/routing/admission_check.h"
#include "kvist/routing/forecaster.h"
#include "kvist/spec/resilience_spec.h"

namespace kvist::dispatch {

/// What a request's admission depends on apart from its worker.
struct AdmissionProfile {
  Tenant tenant = {};
  std::string key_class = {};     ///< of its API key, for the counters
  std::int32_t priority = 0;      ///< as in vLLM: the lower, the earlier
  Duration first_token_within{};  ///< after this time its client will have left; 0: unknown
  bool exempt = false;            ///< it computes nothing, and is never refused for its wait
};

enum class RefusalReason : std::uint8_t {
  kInFlight,  ///< `max_in_flight` requests are
  kWait,      ///< the wait is above what anyone may wait
  kDeadline,  ///< above what its client said
  kPriority,  ///< above what its priority may wait
  kShare,     ///< above what its key may wait, which has used more than its share
};
inline constexpr std::size_t kRefusalReasons = 5;
/// "in_flight"
[[nodiscard]] std::string_view to_string(RefusalReason reason);
using RefusalCounts = std::array<std::uint64_t, kRefusalReasons>;

/// Why a request is not begun, and when to try again.
struct Refusal : Error {
  static constexpr Duration kAtOnce = std::chrono::seconds(1);
  Refusal(Error error, Outcome how, Duration after = kAtOnce)
      : Error(std::move(error)), outcome(how), retry_after(after) {}
  Outcome outcome;       ///< as which it is counted
  Duration retry_after;  ///< whole seconds
};

/// Compares the wait that is forecast for a request with what it may wait:
///  - `max_wait` at a worker whose queue was short a moment ago, so that a burst is served;
///  - `standing_wait` once the queue has been longer than that for a while, the sooner the longer it is: such a queue
///    does not pass by itself, and a longer one only makes everybody's wait longer without anything more getting done.
///    (The rule of Facebook's "Fail at Scale", 2015, with forecasts in place of ages, and a queue's excess over time,
///    as a controller integrates it, in place of a fixed time.) Who needs less of the worker's time than the mean
///    request may wait longer, who needs more less: what is refused shall leave room for as many others as possible.
///    In the middle of a conversation a request needs little, because its history is cached; so conversations that
///    have begun are the last that are refused;
///  - less, by its priority: half for each step above 0; up to twice as much below. So classes are refused in order;
///  - less, if its key has used more than its share: the inverse of its excess, at least a quarter. So the others find
///    a shorter queue than that key leaves. A key below half of its share may wait `max_wait` even in a standing queue,
///    because the queue does not consist of its requests;
///  - never more than what its client says;
///  - not at all, if it would leave too few slots free at a worker with a standing queue: one for each better priority
///    that comes as well, and one if its key has used more than its share. Otherwise whoever asks most often would get
///    every slot that becomes free.
/// Where the router's choice is turned down, another worker takes the request only if that costs the fleet little: its
/// prefill there is at most kMovedPrefill times that at the choice, or that of an average request. A long history that
/// is computed anew elsewhere takes the time of many other requests, so that a burst would become an overload. Of what
/// other requests in flight share, kCopyNow of its part of the further copy counts: they find it there then. If it did
/// not count, a large fleet whose caches are empty would compute each hot prefix at every worker at once. Where what is
/// computed evicts what others come for, the part that is computed beyond that at the choice counts kMovedEvictions
/// times as often as that happens: practically nothing moves then but where it finds as much.
///
/// Nor does it take the request if the policy has weighed the wait at its choice against what others would cost
/// everybody (TurnedDown::weighed), and no priority, share or deadline of its own has made the bound shorter: what is
/// turned down for the queue went, one after the other, to the workers where it cost most, and all of them became as
/// slow (docs/design/overload.md).
///
/// A worker whose oldest prompt alone would make all others wait too long gets one of them now and then, after pauses
/// that grow with its age: its first token shows whether that prompt holds up anybody (routing::PrefillQueue). So
/// neither a request that hangs nor a long prompt that is computed beside others keeps everybody out. Where a worker is
/// known to compute one prompt after the other, only if that prompt is overdue.
///
/// An idle worker takes everything, and its queue is over. Forecasts are corrected by what first tokens really took,
/// and by how long the oldest request at the worker is overdue. While nothing was learned of the fleet, workers with
/// free slots take everything. Threads: the router's. Memory: the keys of FairShare, and kMostClasses classes.
class WaitAdmission {
 public:
  static constexpr Duration kLongestRetryAfter = std::chrono::seconds(60);  ///< OpenAI's clients ignore longer ones
  /// If no `standing_wait` is configured, it is this multiple of the mean time to first token without a wait. With one
  /// half, loads of 60 to 95 % of the capacity had 5 to 47 % of their turns refused (docs/design/overload.md).
  static constexpr double kStandingMultiple = 2;
  /// It is at least the first, and the second at a worker with free slots. On fast engines forecasts of waits are too
  /// long by 0.1 s, because prompts that they have one after the other are computed in one step.
  static constexpr Duration kLeastStandingWait = std::chrono::milliseconds(200);
  static constexpr Duration kLeastWaitBesideSlots = std::chrono::milliseconds(300);
  /// The same where many are refused, and which shares of the requests of late are few and many. A third is refused at
  /// 1.5 times the capacity; if less were many, a queue too short to keep the fleet busy would be its own reason.
  static constexpr double kShortMultiple = 0.5;
  static constexpr Duration kLeastShortWait = std::chrono::milliseconds(50);
  static constexpr double kFewRefused = 0.35;
  static constexpr double kManyRefused = 0.5;
  static constexpr std::chrono::duration<double> kRefusedMemory = std::chrono::seconds(10);
  /// A queue stands once its excess, wait / standing_wait - 1 integrated over time, is above the first; it is bounded
  /// by the second, so that it is known soon that a queue is short again.
  static constexpr Duration kStandingExcess = std::chrono::seconds(30);
  static constexpr Duration kMostExcess = std::chrono::seconds(40);
  /// It stands at least for so long after the last request that it had refused, unless the worker becomes idle.
  static constexpr Duration kLeastStanding = std::chrono::seconds(1);
  /// A queue that nobody asked for longer than this is not known to have been long.
  static constexpr Duration kLongestGap = std::chrono::seconds(1);
  /// The bound of a request is multiplied by the mean request's work over its own, squared, and at least this.
  static constexpr double kLeastWorkFactor = 0.25;
  static constexpr double kLeastShareFactor = 0.25;
  /// At most one slot in this many is kept free; a smaller worker keeps none.
  static constexpr std::uint32_t kSlotsPerFreeOne = 8;
  /// A priority that was seen within this time is expected again.
  static constexpr Duration kPriorityMemory = std::chrono::seconds(10);
  /// Priorities are told apart from -kMostPriority to kMostPriority; those beyond count like the last.
  static constexpr std::int32_t kMostPriority = 6;
  static constexpr double kLightKey = 0.5;  ///< of its share
  static constexpr double kMovedPrefill = 2;
  /// The part of a further copy that those have to pay who share it now; the rest is for those who come later.
  static constexpr double kCopyNow = 0.5;
  static constexpr Duration kLeastProbePause = std::chrono::seconds(1);
  static constexpr double kProbePause = 0.5;  ///< of how long the oldest prompt has waited
  /// Of the oldest prompt's time to first token. With any, engines that overtake got long ones in overload, each of
  /// them behind those who had been overtaken: of 6,605 requests 1,214 in place of 1,979 had a first token within 10 s.
  static constexpr double kProbeWork = 0.25;
  /// Per GhostCache::recomputed(). Of 0, 1, 3, 10, 30 and 100 more was always better.
  static constexpr double kMovedEvictions = 100;
  static constexpr std::size_t kMostClasses = 256;

  /// Requires: the forecaster outlives this object.
  WaitAdmission(const spec::AdmissionSpec& spec, const routing::Forecaster& forecaster, std::size_t workers);

  /// The question for one request. Valid for one call of Router::route().
  class Check final : public routing::AdmissionCheck {
   public:
    [[nodiscard]] bool admits(const routing::Candidate& candidate) override;
    void on_turned_down(const TurnedDown& request) override { request_ = request; }

   private:
    friend class WaitAdmission;
    Check(WaitAdmission& admission, const AdmissionProfile& profile, double share, TimePoint now,
          std::optional<TimePoint> came)
        : admission_(&admission), profile_(&profile), share_(share), now_(now), came_(came) {}
    [[nodiscard]] double limit_ms(const routing::Candidate& candidate, double wait_ms, RefusalReason& reason) const;
    /// Whether it may go there although that is not the router's choice.
    [[nodiscard]] bool is_anyones() const;
    [[nodiscard]] bool may_move_to(const routing::Candidate& candidate) const;
    /// Whether going there costs little.
    [[nodiscard]] bool is_cheap(const routing::Candidate& candidate) const;
    /// Whether it would take a slot that is kept for others, and why for others.
    [[nodiscard]] std::optional<RefusalReason> takes_kept_slot(const routing::Candidate& candidate) const;
    /// The candidate that came closest to taking the request.
    struct Least {
      double over_ms = 0;
      double wait_ms = 0;
      double limit_ms = 0;
      RefusalReason reason = RefusalReason::kWait;
    };
    WaitAdmission* admission_;
    const AdmissionProfile* profile_;
    double share_;
    TimePoint now_;
    std::optional<TimePoint> came_;
    TurnedDown request_;
    bool waits_too_long_ = false;              // at the router's choice, by no bound of its own
    std::optional<double> choice_prefill_ms_;  // at the router's choice; nothing: it has not been asked for yet
    std::optional<Least> least_;
  };
  /// `came`: the request is held since then, and was asked for before; it is not counted as another one. Requires:
  /// `profile` outlives the check.
  [[nodiscard]] Check check(const AdmissionProfile& profile, TimePoint now, std::optional<TimePoint> came = {});
  Check check(AdmissionProfile&& profile, TimePoint now, std::optional<TimePoint> came = {}) = delete;
  /// The check admitted no worker.
  [[nodiscard]] Refusal refuse(const Check& check);
  /// `max_in_flight` is reached.
  [[nodiscard]] Refusal refuse_in_flight(const AdmissionProfile& profile, std::size_t in_flight);

  /// It was held for so long, and no worker had room for it.
  [[nodiscard]] Refusal refuse_held(const AdmissionProfile& profile, Duration waited);
  /// It was held for so long that its first token cannot come any more while its client waits for it.
  [[nodiscard]] Refusal refuse_late(const AdmissionProfile& profile, Duration waited);

  /// Tokens that a key's request takes; negative: an estimate was too high.
  void charge(const Tenant& tenant, double tokens, TimePoint now) { shares_.charge(tenant.id, tokens, now); }
  /// A first token came. Milliseconds: what was forecast when the request went to its worker, and what it took.
  void on_first_token(double forecast_wait_ms, double forecast_ttft_ms, double ttft_ms);

  /// Other gateways were asked for so many requests, and refused so many of them. They count like one's own, because
  /// all gateways fill the same queues: if one refused few and had a longer bound for that, the others would have to
  /// refuse nearly all.
  void on_others(std::uint64_t asked, std::uint64_t refused, TimePoint now);
  /// Requests that were refused for their wait.
  [[nodiscard]] std::uint64_t refused_for_wait() const { return refused_for_wait_; }

  /// The id belongs to another worker from here on.
  void forget(WorkerId worker) { queues_.at(worker.value()) = {}; }

  /// Whether forecasts rest on first tokens that were seen. A prior's estimate of a prompt's own time is no reason to
  /// refuse it.
  [[nodiscard]] bool has_learned() const;
  /// By class of key; "" stands for requests without a key.
  [[nodiscard]] const std::map<std::string, RefusalCounts>& refused() const { return refused_; }
  /// How long the latest request would have waited at its worker, and the longest wait that any request may have there.
  [[nodiscard]] double wait_ms() const { return wait_ms_; }
  [[nodiscard]] double limit_ms() const { return limit_ms_; }
  [[nodiscard]] double standing_wait_ms() const;
  /// The correction of forecast waits; short waits are those up to `standing_wait`.
  [[nodiscard]] const WaitCorrection& correction() const { return correction_; }
  /// Workers with a standing queue.
  [[nodiscard]] std::size_t standing() const;

 private:
  static constexpr std::size_t kPriorities = 2 * kMostPriority + 1;
  struct Queue {
    double excess_s = 0;
    std::optional<TimePoint> seen = {};
    TimePoint turned_down;  // a request, for the last time
    bool stands = false;
  };
  [[nodiscard]] double wait_ms(const routing::Candidate& candidate, TimePoint now) const;
  [[nodiscard]] bool is_cold(const routing::Candidate& candidate) const;
  [[nodiscard]] bool is_probe(const routing::Candidate& candidate, TimePoint now) const;
  /// The worker's time that the request takes: its prefill and its part of the steps of its answer.
  [[nodiscard]] double work_ms(const routing::Candidate& candidate) const;
  [[nodiscard]] double standing_wait_ms(Duration least) const;
  /// Of a request of mean work at that worker, and of this one.
  [[nodiscard]] double mean_standing_wait_ms(const routing::Candidate& candidate) const;
  [[nodiscard]] double standing_wait_ms(const routing::Candidate& candidate) const;
  /// `few` where few requests are refused, `many` where many are, and in between.
  [[nodiscard]] double by_refused(double few, double many) const;
  static void look_at(Queue& queue, double excess, TimePoint now);
  [[nodiscard]] double short_wait_ms() const;
  void count(const std::string& key_class, RefusalReason reason);
  void forget_older(TimePoint now);

  const routing::Forecaster* forecaster_;
  double max_wait_ms_;
  std::optional<double> configured_standing_ms_;
  std::vector<Queue> queues_;  // by WorkerId
  FairShare shares_;
  double seen_ = 0;     // requests of the next two
  double own_ms_ = 0;   // mean time to first token without a wait
  double work_ms_ = 0;  // mean of work_ms()
  // How many requests were asked for and refused lately, older ones less, as of `asked_at_`.
  double asked_lately_ = 0;
  double refused_lately_ = 0;
  TimePoint asked_at_{};
  std::uint64_t refused_for_wait_ = 0;
  WaitCorrection correction_;
  double wait_ms_ = 0;
  double limit_ms_ = 0;
  std::array<std::optional<TimePoint>, kPriorities> came_{};  // by priority: the last request
  std::map<std::string, RefusalCounts> refused_;
};

}  // namespace kvist::dispatch
