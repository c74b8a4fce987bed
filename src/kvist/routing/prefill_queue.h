// The prompts that a worker has still to compute, as far as the gateway can tell.
#pragma once

#include <algorithm>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/latency_model.h"

namespace kvist::routing {

/// The requests of one worker that have no first token yet, in the order in which they came: engines compute prompts
/// one after the other, or as good as that (a step's budget of tokens goes to the oldest first). What was computed is
/// known from first tokens alone, so a worker in the middle of a long prompt does not look free because the clock went
/// on. Pure; one thread. Bounded by the worker's requests in flight.
class PrefillQueue {
 public:
  /// `ready`: when the engine could begin with it at the earliest.
  void push(RequestId request, const PrefillWork& work, TimePoint ready) {
    prompts_.push_back({.request = request, .ready = ready, .work = work});
  }
  /// Its first token was seen. Does nothing where the request is not in the queue, as the next.
  void on_first_token(RequestId request, TimePoint now) {
    if (erase(request)) last_first_token_ = now;
  }
  /// It ended without one that was seen.
  bool erase(RequestId request) {
    return std::erase_if(prompts_, [request](const Prompt& prompt) { return prompt.request == request; }) > 0;
  }
  /// The first token that was seen last; the clock's beginning before there was one.
  [[nodiscard]] TimePoint last_first_token() const { return last_first_token_; }

  /// How long a prompt that comes now will wait until those before it are computed, in milliseconds.
  /// `prefill_ms(work)`: how long each takes. `way_out_ms`: how long after a prompt is computed its first token is seen
  /// here. The oldest began when the one before it was computed. One that takes longer than it should is expected to be
  /// done at any moment until it has taken twice its time; then it counts as done at that instant, as an answer that is
  /// no stream never tells of its first token.
  template <class PrefillMs>
  [[nodiscard]] double wait_ms(TimePoint now, double way_out_ms, PrefillMs prefill_ms) const {
    TimePoint free = last_first_token_ - from_milliseconds(way_out_ms);
    for (const Prompt& prompt : prompts_) {
      const Duration prefill = from_milliseconds(prefill_ms(prompt.work));
      free = std::max(free, prompt.ready) + prefill;
      if (free < now) free = std::min(now, free + prefill);
    }
    return std::max(0.0, to_milliseconds(free - now));
  }
  /// All of them together, in milliseconds.
  template <class PrefillMs>
  [[nodiscard]] double total_ms(PrefillMs prefill_ms) const {
    double sum = 0;
    for (const Prompt& prompt : prompts_) sum += prefill_ms(prompt.work);
    return sum;
  }

 private:
  struct Prompt {
    RequestId request;
    TimePoint ready;
    PrefillWork work;
  };
  std::vector<Prompt> prompts_;
  TimePoint last_first_token_{};
};

}  // namespace kvist::routing
