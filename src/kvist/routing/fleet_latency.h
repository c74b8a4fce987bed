// How fast each worker is. Where a worker's own observations are few or old, the fleet's count instead.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/prefetch.h"
#include "kvist/base/time.h"
#include "kvist/routing/latency_model.h"

namespace kvist::routing {

/// One LatencyModel per worker and one of all workers together. A worker's expectation is a weighted mean: its own
/// model counts 1 - exp(-evidence / kDoubt), the fleet's model the rest.
/// Evidence is the time that the worker's observations span, not their number, because ten steps of one busy moment
/// tell hardly more than one of them. Half of it is forgotten in kHalfLife. So a few slow steps do not make a worker
/// count as slow. A worker that counts as slow, and gets no requests for that reason, comes to be expected as fast as
/// the fleet. Then it is tried again, and its own model, which is kept, decides.
///
/// Steps may be observed for a long time while no first token says anything of the worker's prefill, for instance where
/// many short prompts are computed in one step. Then its weights of the first token are hardly more than the prior, and
/// scatter from worker to worker. So these count by 1 - exp(-learned / kDoubt) of the worker's share, where `learned`
/// is the time that those first tokens span from which they were learned, with nothing forgotten: how recent they are
/// is in the share already. Fast engines with short answers at 60 % of their capacity had a TTFT p95 lower by a tenth
/// with this rule (four seeds). Threads: one.
class FleetLatency {
 public:
  /// The evidence with which a worker's own model counts 63 %, the fleet's 37 %.
  static constexpr Duration kDoubt = std::chrono::seconds(5);
  static constexpr Duration kHalfLife = std::chrono::seconds(10);
  /// The evidence of a whole answer is less by this factor than that of one whose tokens were seen. With all of it two
  /// equal workers with a few requests each looked more different than their loads differed (equal_workers_test.cc).
  static constexpr double kWholeAnswer = 0.5;
  /// First tokens that come within this share of a decode step are of the same step.
  static constexpr double kSameStep = 0.5;

  FleetLatency(std::size_t workers, const spec::StepTimeSpec& prior)
      : fleet_(prior), workers_(workers, Worker(prior)), last_steps_(workers) {}

  /// What is expected of one worker at one time, by the functions of LatencyModel. Valid until the next observation.
  class Expectation {
   public:
    [[nodiscard]] double step_ms(std::uint32_t batch, std::uint64_t context_tokens) const {
      return mixed(own_share_, own_->step_ms(batch, context_tokens), fleet_->step_ms(batch, context_tokens));
    }
    [[nodiscard]] double first_token_ms(double step_ms, const PrefillWork& work) const {
      return mixed(first_token_share_, own_->first_token_ms(step_ms, work), fleet_->first_token_ms(step_ms, work));
    }
    [[nodiscard]] double prefill_ms(const PrefillWork& work) const {
      return mixed(first_token_share_, own_->prefill_ms(work), fleet_->prefill_ms(work));
    }
    /// FleetLatency::own_share() at that time.
    [[nodiscard]] double own_share() const { return own_share_; }

   private:
    friend class FleetLatency;
    Expectation(const LatencyModel& own, const LatencyModel& fleet, double own_share, double first_token_share)
        : own_(&own), fleet_(&fleet), own_share_(own_share), first_token_share_(first_token_share) {}
    [[nodiscard]] static double mixed(double share, double own, double fleet) { return fleet + share * (own - fleet); }

    const LatencyModel* own_;
    const LatencyModel* fleet_;
    double own_share_;
    double first_token_share_;
  };
  [[nodiscard]] Expectation expect(WorkerId worker, TimePoint now) const {
    const double share = own_share(worker, now);
    return {workers_.at(worker.value()).model, fleet_, share, share * learned_share(worker)};
  }
  /// How much the worker's own model counts, 0 to 1.
  [[nodiscard]] double own_share(WorkerId id, TimePoint now) const {
    const double evidence = evidence_s(workers_.at(id.value()), now);
    return 1 - std::exp(-evidence / to_seconds(kDoubt));
  }

  /// The part of own_share() with which the worker's own weights of the first token count, 0 to 1. It changes with
  /// observations only.
  [[nodiscard]] double learned_share(WorkerId id) const { return workers_.at(id.value()).learned_share; }
  /// For a caller that has something else to do until what expect() reads of the worker is there.
  void prefetch(WorkerId id) const { prefetch_object(workers_[id.value()]); }

  void observe_step(WorkerId id, std::uint32_t batch, std::uint64_t context_tokens, double gap_ms, TimePoint now) {
    Worker& worker = workers_[id.value()];
    worker.model.observe_step(batch, context_tokens, gap_ms);
    fleet_.observe_step(batch, context_tokens, gap_ms);
    take_evidence(worker, gap_ms / 1e3, now);
  }
  /// Engines compute several short prompts in one step. Their first tokens come at once, and the time since the step
  /// before is what they took together. So a first token behind another one is learned from once the next step's comes,
  /// or none is left that could come beside it: `more_wait` says whether there is. `step_ms`: what a step takes at
  /// least.
  void observe_first_token(WorkerId id, const FirstTokenSample& sample, double step_ms, bool more_wait, TimePoint now) {
    std::optional<FirstTokenSample>& step = last_steps_[id.value()];
    const bool is_behind = sample.behind_ms > 0;
    if (step && is_behind && sample.ttft_ms - sample.behind_ms < kSameStep * step_ms) {
      step->beside.add(sample.work);
      step->beside.add(sample.between);
      workers_[id.value()].model.observe_first_token_beside(sample);
      fleet_.observe_first_token_beside(sample);
    } else {
      end_step(id, now);
      step = sample;
    }
    if (!more_wait || !is_behind) end_step(id, now);
    take_evidence(workers_[id.value()], sample.ttft_ms / 1e3, now);
  }
  /// What comes next does not come beside the last first token.
  void end_step(WorkerId id, TimePoint now) {
    std::optional<FirstTokenSample>& step = last_steps_[id.value()];
    if (!step) return;
    Worker& worker = workers_[id.value()];
    if (worker.model.observe_first_token(*step)) learn_first_token(worker, step->ttft_ms / 1e3, now);
    (void)fleet_.observe_first_token(*step);
    step.reset();
  }

  void observe_whole_answer(WorkerId id, const WholeAnswerSample& sample, TimePoint now) {
    Worker& worker = workers_[id.value()];
    const double first_token_s = worker.model.first_token_after_ms(sample) / 1e3;
    worker.model.observe_whole_answer(sample);
    fleet_.observe_whole_answer(sample);
    learn_first_token(worker, first_token_s, now);
    take_evidence(worker, kWholeAnswer * std::min(sample.elapsed_ms / 1e3, to_seconds(now - worker.seen)), now);
  }

  /// The id belongs to another worker from here on. What the fleet's model learned from the old one stays.
  void forget(WorkerId id, const spec::StepTimeSpec& prior) {
    workers_.at(id.value()) = Worker(prior);
    last_steps_[id.value()].reset();
  }

  /// The model of all workers together.
  [[nodiscard]] const LatencyModel& fleet() const { return fleet_; }
  [[nodiscard]] const LatencyModel& model(WorkerId worker) const { return workers_.at(worker.value()).model; }

 private:
  struct Worker {
    explicit Worker(const spec::StepTimeSpec& prior) : model(prior) {}
    LatencyModel model;
    double evidence_s = 0;  // as of `seen`
    TimePoint seen{};
    double learned_s = 0;  // of first tokens, up to `learned`
    TimePoint learned{};
    double learned_share = 0;  // which follows from `learned_s`
  };
  [[nodiscard]] static double evidence_s(const Worker& worker, TimePoint now) {
    return worker.evidence_s * std::exp2(-to_seconds(now - worker.seen) / to_seconds(kHalfLife));
  }
  static void learn_first_token(Worker& worker, double spanned_s, TimePoint now) {
    worker.learned_s += std::min(spanned_s, to_seconds(now - worker.learned));
    worker.learned = now;
    worker.learned_share = 1 - std::exp(-worker.learned_s / to_seconds(kDoubt));
  }
  // Adds the time that an observation spans, without the part of it that earlier observations have covered.
  static void take_evidence(Worker& worker, double spanned_s, TimePoint now) {
    const double since_last_s = to_seconds(now - worker.seen);
    worker.evidence_s = evidence_s(worker, now) + std::min(spanned_s, since_last_s);
    worker.seen = now;
  }

  LatencyModel fleet_;
  std::vector<Worker> workers_;  // by WorkerId
  /// The oldest of the first tokens of each worker's last step, if it was not learned from yet.
  std::vector<std::optional<FirstTokenSample>> last_steps_;
};

}  // namespace kvist::routing
