// The prompts that a worker still has to compute, as far as the gateway can tell.
#pragma once

#include <algorithm>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/latency_model.h"

namespace kvist::routing {

/// The requests of one worker that have no first token yet, in the order in which they came. Engines compute prompts
/// one after the other, or nearly so, because a step's token budget goes to the oldest first. Only a first token shows
/// that a prompt was computed. So a worker in the middle of a long prompt does not look free only because time has
/// passed. Threads: one. Memory: bounded by the worker's requests in flight.
class PrefillQueue {
 public:
  /// A request that waits.
  struct Prompt {
    RequestId request;
    TimePoint ready;  ///< the earliest time at which the engine could begin with it
    PrefillWork work;
    bool streams = false;          ///< its first token will be seen when it comes
    TimePoint due = {};            ///< when the engine should compute it by the forecast, if it has room for it
    std::uint32_t new_blocks = 0;  ///< that it added to its worker's load
    TimePoint first_token = {};    ///< when it was forecast to come
  };
  void push(const Prompt& prompt) { prompts_.push_back(prompt); }
  /// The request's first token was seen. Does nothing if the request is not in the queue, like erase().
  void on_first_token(RequestId request, TimePoint now) {
    if (erase(request)) last_first_token_ = now;
  }
  /// The oldest request whose first token will be seen; null if there is none.
  [[nodiscard]] const Prompt* oldest_stream() const {
    const auto found = std::ranges::find(prompts_, true, &Prompt::streams);
    return found == prompts_.end() ? nullptr : &*found;
  }
  /// The requests whose first token will be seen.
  [[nodiscard]] std::size_t streams() const {
    return static_cast<std::size_t>(std::ranges::count(prompts_, true, &Prompt::streams));
  }
  /// Blocks that the queue's requests added to the worker's load.
  [[nodiscard]] std::uint64_t new_blocks() const {
    std::uint64_t sum = 0;
    for (const Prompt& prompt : prompts_) sum += prompt.new_blocks;
    return sum;
  }
  /// The request ended before a first token was seen. Returns whether it was in the queue.
  bool erase(RequestId request) {
    return std::erase_if(prompts_, [request](const Prompt& prompt) { return prompt.request == request; }) > 0;
  }
  /// When the last first token was seen; the epoch of the clock if there was none.
  [[nodiscard]] TimePoint last_first_token() const { return last_first_token_; }

  /// How long a prompt that comes now waits until those before it are computed, in milliseconds. `prefill_ms(work)` is
  /// the time that a prompt takes, `way_out_ms` the time between the end of its computation and its first token here.
  /// The oldest prompt began when the one before it was computed. A prompt that takes longer than expected is assumed
  /// to be done at any moment. If its answer is not streamed, so that no first token will show it, it counts as done
  /// when it has taken twice its time.
  template <class PrefillMs>
  [[nodiscard]] double wait_ms(TimePoint now, double way_out_ms, PrefillMs prefill_ms) const {
    TimePoint free = last_first_token_ - from_milliseconds(way_out_ms);
    for (const Prompt& prompt : prompts_) free = computed(prompt, free, now, prefill_ms);
    return std::max(0.0, to_milliseconds(free - now));
  }
  /// The work of some prompts together.
  struct Sum {
    double uncached = 0;
    double pairs = 0;
    void add(const PrefillWork& work) {
      uncached += work.uncached;
      pairs += work.pairs();
    }
  };
  struct Outline {
    std::size_t prompts = 0;
    TimePoint ready{};  ///< of the oldest prompt
    Sum overdue{};      ///< the oldest prompts, which should be done at `now`
    Sum others{};
  };
  /// The queue in a few numbers, from which the wait at any later time can be bounded from below. The wait is at least
  ///   start + all - now, and at least min(0, start + 2 x overdue - now) + others,
  /// where `start` is the later of `ready` and `way_out_ms` before the last first token. The arguments are those of
  /// wait_ms(); they only decide which prompts are counted as overdue, and the bounds hold for any division.
  template <class PrefillMs>
  [[nodiscard]] Outline outline(TimePoint now, double way_out_ms, PrefillMs prefill_ms) const {
    Outline outline{.prompts = prompts_.size()};
    if (!prompts_.empty()) outline.ready = prompts_.front().ready;
    TimePoint free = last_first_token_ - from_milliseconds(way_out_ms);
    for (const Prompt& prompt : prompts_) {
      const TimePoint at_best = std::max(free, prompt.ready) + from_milliseconds(prefill_ms(prompt.work));
      (at_best < now ? outline.overdue : outline.others).add(prompt.work);
      free = computed(prompt, free, now, prefill_ms);
    }
    return outline;
  }
  /// The time that all prompts in the queue take together, in milliseconds.
  template <class PrefillMs>
  [[nodiscard]] double total_ms(PrefillMs prefill_ms) const {
    double sum = 0;
    for (const Prompt& prompt : prompts_) sum += prefill_ms(prompt.work);
    return sum;
  }

 private:
  /// When the prompt is computed, if those before it are at `free`.
  template <class PrefillMs>
  [[nodiscard]] static TimePoint computed(const Prompt& prompt, TimePoint free, TimePoint now, PrefillMs prefill_ms) {
    const Duration prefill = from_milliseconds(prefill_ms(prompt.work));
    const TimePoint at_best = std::max(free, prompt.ready) + prefill;
    if (at_best >= now) return at_best;
    return prompt.streams ? now : std::min(now, at_best + prefill);
  }

  std::vector<Prompt> prompts_;
  TimePoint last_first_token_{};
};

}  // namespace kvist::routing
