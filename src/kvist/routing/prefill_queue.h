// The prompts that a worker still has to compute, as far as the gateway can tell.
#pragma once

#include <algorithm>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/prefill_work.h"

namespace kvist::routing {

/// The requests of one worker that have no first token yet, in the order in which they came. Most engines compute
/// prompts one after the other, or nearly so, because a step's token budget goes to the oldest first. Only a first
/// token shows that a prompt was computed. So a worker in the middle of a long prompt does not look free only because
/// time has passed.
///
/// Some do not keep to that order: they compute a long prompt beside short ones, take those first whose prefix is
/// cached or who matter most, or wait for something of one request's own (a grammar, an adapter, blocks from
/// elsewhere). A prompt without a first token some time after a later one had it was overtaken: it holds up nobody, so
/// that from then on it is nobody's queue. Threads: one. Memory: bounded by the worker's requests in flight.
class PrefillQueue {
 public:
  /// A request that waits.
  struct Prompt {
    RequestId request;
    TimePoint ready;  ///< the earliest time at which the engine could begin with it
    PrefillWork work;
    bool streams = false;          ///< its first token will be seen when it comes
    TimePoint due = {};            ///< when its first token was forecast to come if the engine has room for it
    std::uint32_t new_blocks = 0;  ///< that it added to its worker's load
    TimePoint first_token = {};    ///< when it was forecast to come
    TimePoint routed = {};         ///< when it came
    TimePoint passed = {};         ///< when the first token of a later one came first; the epoch: none did
    bool of_peer = false;          ///< as in RoutedRequest, as is the next
    bool stands_in = false;
    Duration late{};
    PrefillSum told_later = {};  ///< other gateways' prompts that came before it, of which word came later
  };
  /// First tokens of one step are seen at nearly the same time, in any order.
  static constexpr Duration kTogether = std::chrono::milliseconds(50);

  void push(const Prompt& prompt) { prompts_.push_back(prompt); }
  /// The request's first token was seen. Does nothing if the request is not in the queue, like erase().
  void on_first_token(RequestId request, TimePoint now) {
    const auto own = std::ranges::find(prompts_, request, &Prompt::request);
    if (own == prompts_.end()) return;
    if (own->streams) {  // word of another gateway's is late
      note_order(*own, own + 1, now);
      for (auto earlier = prompts_.begin(); earlier != own; ++earlier) pass(*earlier, now);
    }
    if (!own->of_peer) last_own_first_token_ = now;
    last_first_token_ = std::max(last_first_token_, now - own->late);
    prompts_.erase(own);
  }
  /// Word came of another gateway's prompt, which was routed then.
  void on_told(TimePoint routed, const PrefillWork& work) {
    for (Prompt& prompt : prompts_)
      if (!prompt.of_peer && prompt.routed > routed) prompt.told_later.add(work);
  }
  /// Prompt::told_later of a request; nothing if it is not in the queue.
  [[nodiscard]] PrefillSum told_later(RequestId request) const {
    const auto own = std::ranges::find(prompts_, request, &Prompt::request);
    return own == prompts_.end() ? PrefillSum() : own->told_later;
  }
  /// A request that was routed then was answered as a whole.
  void pass_before(TimePoint routed, TimePoint now) {
    for (Prompt& prompt : prompts_)
      if (prompt.routed < routed) pass(prompt, now);
  }
  /// Whether the worker is known to compute prompts one after the other: of late none was overtaken, and some had
  /// others behind them for kLongBehind or longer.
  [[nodiscard]] bool keeps_order() const { return kept_order_ >= kEnoughKept; }
  static constexpr Duration kLongBehind = std::chrono::seconds(1);
  static constexpr std::uint32_t kEnoughKept = 3;
  [[nodiscard]] static bool is_overtaken(const Prompt& prompt, TimePoint now) {
    return prompt.passed != TimePoint() && now - prompt.passed > kTogether;
  }
  /// Whether the request was overtaken; false if it is not in the queue.
  [[nodiscard]] bool is_overtaken(RequestId request, TimePoint now) const {
    const auto own = std::ranges::find(prompts_, request, &Prompt::request);
    return own != prompts_.end() && is_overtaken(*own, now);
  }
  /// The oldest request whose first token will be seen, of those that were not overtaken; null if there is none.
  [[nodiscard]] const Prompt* oldest_stream(TimePoint now) const {
    const auto found =
        std::ranges::find_if(prompts_, [now](const Prompt& p) { return p.streams && !is_overtaken(p, now); });
    return found == prompts_.end() ? nullptr : &*found;
  }
  /// The requests whose first token will be seen, likewise.
  [[nodiscard]] std::size_t streams(TimePoint now) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(prompts_, [now](const Prompt& p) { return p.streams && !is_overtaken(p, now); }));
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
  /// When a prompt in the queue is computed, if everything before it goes on as forecast. The arguments are those of
  /// wait_ms(). The epoch of the clock if it is not in the queue.
  template <class PrefillMs>
  [[nodiscard]] TimePoint computed_at(RequestId request, TimePoint now, double way_out_ms, PrefillMs prefill_ms) const {
    TimePoint free = begin(way_out_ms);
    for (const Prompt& prompt : prompts_) {
      if (!is_overtaken(prompt, now)) free = computed(prompt, free, now, prefill_ms);
      if (prompt.request == request) return free;
    }
    return {};
  }
  /// The prompt was computed by `at`, although no first token was seen. Requires: so were those before it.
  void on_computed(RequestId request, TimePoint at) {
    if (erase(request)) on_computed_by(at);
  }
  /// A prompt that is not in the queue any more, and so all before it, was computed by `at`.
  void on_computed_by(TimePoint at) { unseen_until_ = std::max(unseen_until_, at); }
  /// When the last first token was seen; the epoch of the clock if there was none.
  [[nodiscard]] TimePoint last_first_token() const { return last_first_token_; }
  /// The same of this gateway's requests.
  [[nodiscard]] TimePoint last_own_first_token() const { return last_own_first_token_; }

  /// How long a prompt that comes now waits until those before it are computed, in milliseconds. `prefill_ms(work)` is
  /// the time that a prompt takes, `way_out_ms` the time between the end of its computation and its first token here.
  /// The oldest prompt began when the one before it was computed. A prompt that takes longer than expected is assumed
  /// to be done at any moment. If its answer is not streamed, so that no first token will show it, it counts as done
  /// when it should be. (If it counted as done after twice its time, as in an earlier version, one long prompt would
  /// keep others away from a free worker: where nobody streams, TTFT p50 of long prompts was 1.4 times as long.)
  template <class PrefillMs>
  [[nodiscard]] double wait_ms(TimePoint now, double way_out_ms, PrefillMs prefill_ms) const {
    TimePoint free = begin(way_out_ms);
    for (const Prompt& prompt : prompts_)
      if (!is_overtaken(prompt, now)) free = computed(prompt, free, now, prefill_ms);
    return std::max(0.0, to_milliseconds(free - now));
  }
  struct Outline {
    std::size_t prompts = 0;
    TimePoint ready{};  ///< the earliest time at which the engine could begin with the oldest prompt
    PrefillSum head{};  ///< the prompts up to the first one whose first token will be seen, or all
    PrefillSum after{};
  };
  /// The queue in a few numbers, from which the wait at any later time can be bounded from below. It is at least
  ///   max(0, start + head - now) + after,
  /// where `start` is the later of `ready` and `way_out_ms` before the last first token: a prompt whose first token
  /// will be seen is not done before now. Those that a later one has passed count at no time.
  [[nodiscard]] Outline outline() const {
    Outline outline;
    bool seen = false;
    for (const Prompt& prompt : prompts_) {
      if (prompt.passed != TimePoint()) continue;
      if (outline.prompts++ == 0) outline.ready = std::max(prompt.ready, unseen_until_);
      (seen ? outline.after : outline.head).add(prompt.work);
      seen = seen || prompt.streams;
    }
    return outline;
  }
  /// The work of the queue's prompts, without those that only stand for others.
  [[nodiscard]] PrefillSum work() const {
    PrefillSum sum;
    for (const Prompt& prompt : prompts_)
      if (!prompt.stands_in) sum.add(prompt.work);
    return sum;
  }
  /// Whether another gateway's prompt is among them, or one that stands for it.
  [[nodiscard]] bool has_peers() const { return std::ranges::any_of(prompts_, &Prompt::of_peer); }
  /// The time that all prompts in the queue take together, in milliseconds.
  template <class PrefillMs>
  [[nodiscard]] double total_ms(PrefillMs prefill_ms) const {
    double sum = 0;
    for (const Prompt& prompt : prompts_) sum += prefill_ms(prompt.work);
    return sum;
  }

 private:
  static void pass(Prompt& prompt, TimePoint now) {
    if (prompt.streams && prompt.passed == TimePoint()) prompt.passed = now;
  }
  void note_order(const Prompt& own, std::vector<Prompt>::const_iterator later, TimePoint now) {
    if (is_overtaken(own, now)) {
      kept_order_ = 0;
    } else if (later != prompts_.end() && now - later->routed >= kLongBehind) {
      kept_order_ = std::min(kept_order_ + 1, kEnoughKept);
    }
  }
  /// When those who are not in the queue any more were computed.
  [[nodiscard]] TimePoint begin(double way_out_ms) const {
    return std::max(unseen_until_, last_first_token_ - from_milliseconds(way_out_ms));
  }
  /// When the prompt is computed, if those before it are at `free`.
  template <class PrefillMs>
  [[nodiscard]] static TimePoint computed(const Prompt& prompt, TimePoint free, TimePoint now, PrefillMs prefill_ms) {
    const TimePoint at_best = std::max(free, prompt.ready) + from_milliseconds(prefill_ms(prompt.work));
    return prompt.streams ? std::max(at_best, now) : at_best;
  }

  std::vector<Prompt> prompts_;
  std::uint32_t kept_order_ = 0;  // prompts in a row, up to kEnoughKept
  TimePoint last_first_token_{};
  TimePoint last_own_first_token_{};
  TimePoint unseen_until_{};  // the last prompt without a first token was computed by then
};

}  // namespace kvist::routing
