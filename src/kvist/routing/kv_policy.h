// kvist's own KV-aware routing: the least predicted time, for the request and for the others on its worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Chooses the candidate with the least cost
///   time to first token + 4 x its wait behind other prompts + 6.5 x F x its prefill on an average worker
///   + (1 + 6.5 x F) x the prefill of what it displaces
///   + 2 x E x (1 + 6.5 x the mean of F) x its prefill on an average worker
///   + 2 x F x the delay of those who will come for the worker's cache
///   + 1/4 x by how much its prefill delays those who decode there
///   + 1/20 x (its answer's decode steps with it in the batch
///             + by how much longer steps delay those who decode there until they end, which is half an answer away)
/// in milliseconds, all from the candidate's forecast (the last two divided by PolicyQuery::ttft_weight), and what it
/// costs to leave the worker of the request's session (Candidate::affinity_ms, 0 unless that is asked for). F is the
/// number of requests that wait for their first token and have a slot, per worker of the fleet, less those that are
/// only on their way into the engines and out of them (PolicyQuery::in_transit). While F is large,
/// prefill is what every request waits for, so a cached prefix is worth its prefill to each of them and to those that
/// come until the queues are empty. While F is zero, a cached prefix is worth what it saves the request itself.
/// Those that wait for a slot count for 0.15 in F, so that a prefill counts about once for each: it makes the answers
/// for whose ends they wait longer by itself, but it is not what keeps them waiting. Before that, and before a wait for
/// a slot counted once where nobody has one (below), prefill was nearly free where slots are what all wait for: with
/// three workers of eight slots near saturation TTFT p50 was 2.5 s and p95 7.8 (0.9 and 4.5 now; 0.6 and 2.8 with the
/// best published policy), and with workers of mixed speeds at 95 % of the capacity p50, p95 and p99 were 1.8, 1.8 and
/// 1.3 times as long (four traces). If they count in full, p95 of code completion at 95 % is twice as long on some
/// traces, because everybody stays in the longest queues.
///
/// A prompt displaces cached prefixes if the worker's memory is full of prefixes that are used again and again and of
/// what is in flight: prompts of which nothing was known, and answers so far. The displaced prefixes will have to be
/// computed anew, so their prefill counts like the request's own (ReusedPrefixes). Without this term too many long
/// conversations stay at one worker: each return evicts another one's cache. No more counts than there is to displace:
/// what is in flight beyond that only waits. Before it was so, long prompts that nobody shares went to whatever worker
/// had most memory left, however long its queue (at 95 % of the capacity TPOT p50 was a third higher and TTFT p50 a
/// sixth, eight traces; TTFT p95 of the mixture and of the flood at 80 % a tenth, twelve each).
///
/// Each block that is computed takes the place of the one that was not used for the longest time, which may be asked
/// for again; E is how many blocks have to be computed again for each that is (PolicyQuery::recomputed, GhostCache).
/// That happens some time later, so it delays as many as wait on average. Where prompts come back to a memory that
/// holds most of them, a prompt that leaves its cache costs the fleet several times its own prefill: with 200 files on
/// four workers 2 % of the prompt tokens were computed where they were not cached although another worker had them, and
/// 28 % in all; without those 2 %, 24 %. Where E is 0 nothing changes: chats, agents, retrieval, long prompts, short
/// answers and reasoning were the same to the digit. On four traces that no weight was chosen on, code completion had a
/// TTFT p50 of 0.54, 0.75, 0.84 at 60, 80, 95 % of the capacity, and a TPOT of 0.63 at 95 %; mixtures a p50 of 0.98,
/// 0.81, 0.83, a p95 of 1.07, 0.76, 0.81 and a TPOT of 0.97, 0.85, 0.97; a day was the same within the error. A weight
/// of 1 gains nearly as much with files and a half with mixtures; so does leaving out the mean of F. With E on what is
/// displaced too, p95 of mixtures at 80 % was a quarter higher.
///
/// A long prompt occupies its worker, and those who come for the worker's cache in the meantime wait or lose what the
/// cache would have saved them (ReturningRequests). With this term long prompts gather on the workers that are least
/// sought for their caches, and short ones do not wait behind them. In a flood of long prompts p95 of TTFT fell to a
/// half and p99 by a tenth, in simulations of eight workers. A weight of 4 F gains a little more there, but where
/// agents' contexts fill the memory p99 of TTFT doubled, because the few prompts that had to be computed anew met on
/// one worker. Without F this term would count where nobody waits, too, and no workload gained from that.
///
/// Delays are summed over all requests, so that a request leaves the worker with its cache for a smaller batch only if
/// that delays them less, however long the engine's steps, prefills and answers are. A share below 1 is used because
/// users wait for a first token more than for the rest; waits behind others have a weight because they make the tail of
/// TTFT. A prefill delays those who decode now and for certain. How long steps will take until an answer has ended is
/// less certain, because others come and go in the meantime, so it has a smaller share. All weights were chosen in
/// virtual time over the published deployment, prompts that nobody shares, too little KV memory, and engines with short
/// steps and short answers: shares of 1/50 to 1/10 and weights of 2 to 8 give about the same in most cases, a smaller
/// share costs throughput with short steps, a smaller weight costs TTFT p95 with unshared prompts. The weight of F was
/// compared with 2 (long prompts wait half as long again), 5 (code completion waits a fifth longer at p50) and 8
/// (floods wait a seventh longer at p95). F without what is in transit made p99 of TTFT 6 % lower over five workloads
/// at 60 to 95 % of the capacity: with fast engines and thousands of requests nearly all that have no first token are
/// in transit, and their number, as if it were a queue, kept each hot prefix at one worker. F as the requests of the
/// last 10 s found it, where that is more, would keep a request at its prefix in moments in which nobody waits by
/// chance: where 200 files fill the memory of four workers TTFT p50 was 0.84 and TPOT 0.88 of what they are (at 80 %,
/// 12 traces), but of 64 workers with memory for all p95 was 1.15 at 80 % and 1.25 at 95 % (six traces each); with half
/// of that mean 0.91 and 0.95, and 1.01 and 1.06. What the two together let expect, (16 + n F) / (16 / mean + n) of n
/// workers, where that is more than F, leaves the 64 workers as they are (1.02 and 0.99) and gives the files 0.81 to
/// 0.88 (TPOT 0.78 to 0.99), but agents at 80 % a p95 of 1.08 and a TPOT of 1.02 (24 traces), and no gain on mixtures.
/// With 1/20 for the delay by the prefill, as an earlier version had it, long prompts without a cache were computed at
/// all workers at once and every answer stood still, so that TPOT and TTFT were up to twice those of policies that look
/// at the batch. With 3/8 and 1/2 (six traces each of eight workloads) long prompts at 95 % have a TTFT p50 of 0.81 and
/// 0.73 and a TPOT of 0.89 and 0.84 of what they have with 1/4, but a p99 of 1.10 and 1.20; conversations at 95 % have
/// a TTFT p95 of 1.06 and 1.08, those of closed loops a p99 of 1.13 and 1.34, because they stay where others are being
/// computed; mixtures at 95 % have a p95 of 0.87 and 0.81, within an error of 0.12 and 0.21; the rest is the same
/// within the error. If a request's wait counts for less the longer its own prefill is (by the root of the mean prefill
/// over its own, from 0.2 to 1), long prompts wait where others do and leave short ones the rest: of eight workloads at
/// 95 % p50, p95, p99 and TPOT are 0.91, 0.95, 1.11 and 0.97, and three points more of the requests are within
/// their objective (seeds 741 to 743); but at 60 and 80 % p99 is 1.07, for hardly a gain elsewhere.
///
/// Further rules:
///  - A wait for a batch slot counts five times, like one behind other prompts, as long as another worker has room. It
///    is short where answers end often, and the forecast knows that others end while the request is on its way. With a
///    weight of 60, as an earlier version had it, conversations at 95 % of the slots left their workers at every
///    chance, so that a quarter more prompt tokens had to be computed, and waited twice as long as with the published
///    policies that stay.
///  - A wait for KV memory counts 20 times as long as another worker has room. While a request waits, the cache that it
///    came for is evicted for those before it, and so is that of everyone who waits behind it; a worker that computes
///    the prompts of all its conversations anew is slower from then on, by far more than the forecast says. In four
///    traces of a mixture of everything near saturation, p99 of TTFT was 18 % higher with a weight of 5, and p50 16 %
///    higher with 60. If no worker has room, both waits count once: somebody has to wait, and the forecast knows how
///    long.
///  - A worker that is about to run out of slots or KV memory gets no credit for cached tokens that the other workers
///    lack, so that it is never chosen for its cache alone.
///  - The cost of a worker with fewer requests than the cheapest one is lowered, by the more the less was observed of
///    it recently. So a worker that counts as slow is tried now and then, which shows whether it is.
///    It has another effect: a worker that computes a long prompt shows nothing for seconds, so that it comes to be in
///    doubt, and of workers that tie the one with the fewest waiting wins, however long they are. So some requests wait
///    behind long prompts for the good of all others. Without doubt, or with doubt only where nobody waits, a fleet of
///    64 workers has a TTFT p95 and p99 of 0.7 to 0.9 of what it has with it (30 to 95 % of the capacity), and code
///    completion a p95 of 0.7 to 0.9 at 80 %; but long prompts at 95 % have a p50 of 1.8 to 2.4 (p99 0.8), a flood one
///    of 3 to 7 (p99 0.5 to 0.7), and without any doubt workers of mixed speeds have a p95 of 1.3 at 60 and 80 %. If
///    only the part of the cost that is no queue is doubted, the gains and losses are a third of these (seeds 711 to
///    733).
///  - Costs that differ by less than a step are a tie. The deeper cache wins, then the worker with fewer requests that
///    wait for a first token, then the one that this gateway left alone for longer, up to a second, then the lower mean
///    load (a conversation that moves will stay), then the lower load now. Whoever always sends to the least loaded of
///    equal workers gives each one a burst as soon as a step of it has ended; the burst waits for a whole step and
///    makes the next one long. By turns, prompts spread over the steps: with short answers from fast engines at 80 % of
///    the capacity TTFT p95 fell by 10 % and TPOT p50 by 10 % (ten traces), of closed-loop chats p99 by 19 %. By turns
///    alone, without looking at who waits, an overloaded fleet sent a prompt behind another one twice as often.
///  - A prefix that should have another copy (Candidate::replicate_tokens) costs nothing where it is missing.
///  - While the forecasts of the fleet are mostly wrong, the workers take turns.
/// In a large fleet KvShortlist finds the few candidates that can win. Threads: the router's.
class KvPolicy final : public RoutingPolicy {
 public:
  static constexpr double kAnswerShare = 0.05;
  static constexpr double kInterruptionShare = 0.25;  ///< of the delay of those who decode while it is computed
  static constexpr double kQueueWeight = 5;           ///< one part of five is in the time to first token itself
  static constexpr double kSlotWeight = 5;            ///< of a wait for a slot; one part is in the time to first token
  static constexpr double kMemoryWeight = 20;     ///< of a wait for KV memory; one part is in the time to first token
  static constexpr double kOccupation = 6.5;      ///< weight of prefill per waiting request, the 6.5 above
  static constexpr double kRecomputedWeight = 2;  ///< of what is computed again for what its prefill evicts
  static constexpr double kHeldUpWeight = 2;      ///< per waiting request, of the delay of those who come for the cache
  /// Costs within this many of the best worker's decode steps are a tie, because it is chance at which moment of a step
  /// a request arrives.
  static constexpr double kTieSteps = 1;
  /// By this share the cost of a worker that was not observed recently may be too high.
  static constexpr double kDoubt = 0.5;
  /// Forecasts are not used while the mean of Forecast::error, over the candidates that have one, is above the first
  /// bound, and are used again below the second. A forecast of half or double the observed time has an error of 0.5.
  /// Fast engines, whose time to first token depends on the moment within a step at which a request arrives, had errors
  /// above 0.6 without any fault.
  static constexpr double kErrorToFallBack = 0.9;
  static constexpr double kErrorToReturn = 0.7;

  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

  // The steps of a choice, for KvShortlist.
  /// The terms of a cost in milliseconds, without waits for a slot or memory and without cached tokens that get no
  /// credit.
  struct Terms {
    double ttft_ms = 0;  ///< with the wait behind other prompts, without the prefill
    double queue_ms = 0;
    double prefill_ms = 0;  ///< as it is paid for, see `paid`
    double fleet_prefill_ms = 0;
    double displaced_ms = 0;
    double held_up_ms = 0;
    double own_ms = 0;           ///< its answer's steps
    double crowding_ms = 0;      ///< by how much its answer's steps delay the others
    double interruption_ms = 0;  ///< by how much its prefill delays those who decode
    double paid = 1;             ///< the part of the prefill that is not an investment into a copy of a hot prefix
  };
  /// What the costs of a decision's workers have in common.
  struct Prices {
    double waiting = 0;     ///< F, per candidate
    double later = 1;       ///< what the delay of later tokens counts for (PolicyQuery::ttft_weight)
    double recomputed = 0;  ///< of the prefill that is done, what others have to do again because of it
  };
  /// Ensures: never falls when a term rises.
  [[nodiscard]] static double sum(const Terms& terms, const Prices& prices) {
    const auto& [waiting, later, recomputed] = prices;
    return terms.ttft_ms + terms.prefill_ms + (kQueueWeight - 1) * terms.queue_ms +
           (kOccupation * waiting + recomputed) * terms.fleet_prefill_ms * terms.paid +
           (1 + kOccupation * waiting) * terms.displaced_ms + kHeldUpWeight * waiting * terms.held_up_ms * terms.paid +
           later * (kInterruptionShare * terms.interruption_ms + kAnswerShare * (terms.own_ms + terms.crowding_ms));
  }
  /// What the costs of a decision depend on apart from the worker.
  struct Fleet {
    bool any_room = true;      ///< some candidate has a free slot and free KV memory
    std::uint32_t others = 0;  ///< the deepest cache, in tokens, among candidates that are not scarce
    Prices prices;
    double error = 0;  ///< the mean of Forecast::error over the candidates that have one
  };
  struct Room {
    bool has_slot = true;  ///< Forecast::has_slot
    bool scarce = false;   ///< Forecast::scarce
  };
  /// F of one worker in parts: its requests that wait for their first token, kPartsWithSlot for each that has one of
  /// its `slots` (0: it has any number), kPartsWithout for each other one. Where answers are not streamed it is assumed
  /// to come as forecast (Router::assume_first_tokens()).
  [[nodiscard]] static std::uint32_t waiting_parts(const WorkerLoad& load, std::uint32_t slots);
  static constexpr std::uint32_t kPartsWithSlot = 20;
  static constexpr std::uint32_t kPartsWithout = 3;
  /// Sums over candidates, which are the same in any order.
  struct Sums {
    std::uint64_t waiting = 0;  ///< waiting_parts()
    std::uint64_t errors = 0;   ///< of forecasts, in parts of kErrorUnit
    std::uint32_t with_error = 0;
    static constexpr double kErrorUnit = 1.0 / (1U << 24U);
    void add(std::uint32_t waits, double error) {
      waiting += waits;
      errors += units(error);
      with_error += error > 0 ? 1 : 0;
    }
    void remove(std::uint32_t waits, double error) {
      waiting -= waits;
      errors -= units(error);
      with_error -= error > 0 ? 1 : 0;
    }

   private:
    // A replayed record may contain any number.
    static std::uint64_t units(double error) {
      return error > 0 ? static_cast<std::uint64_t>(std::min(error, 1e6) / kErrorUnit) : 0;
    }
  };
  [[nodiscard]] static Terms terms_of(const Candidate& candidate, const PolicyQuery& query);
  /// What is added to sum() where a slot or KV memory are scarce: the rest of the weight of a wait for them, and the
  /// prefill that cached tokens without credit save.
  [[nodiscard]] static double scarcity_ms(const Candidate& candidate, const PolicyQuery& query, const Fleet& fleet);
  /// Of candidates that have their forecasts.
  [[nodiscard]] static Fleet fleet_of_all(const PolicyQuery& query, std::span<const Candidate> candidates);
  /// As found() says of an earlier decision on `query`. Its forecasts' errors are unknown.
  [[nodiscard]] static Fleet fleet_of(const PolicyQuery& query, const FoundFleet& found) {
    return {.any_room = found.any_room, .others = found.cached_tokens, .prices = prices_of(query, found.waiting)};
  }
  /// `Members` has size(), sums(), room(position), and for_each_cached_above(tokens, visit), which calls
  /// visit(position, cached tokens) for all that have more cached than `tokens`, which visit() may raise.
  template <class Members>
  [[nodiscard]] static Fleet fleet_of(const PolicyQuery& query, const Members& members);
  /// Ensures: the cost of a worker that is not scarce never falls when a time of the forecast or its lost tokens rise
  /// (with `ttft_ms` as the sum that it is), and a scarce worker's cost is not lower. So the cost of a lower bound of a
  /// forecast is a lower bound of the cost. KvShortlist relies on this.
  [[nodiscard]] static double cost(const Candidate& candidate, const PolicyQuery& query, const Fleet& fleet);
  /// The lowest cost that the candidate may really have. If it has fewer requests than the cheapest candidate, this is
  /// below the computed cost, by the more the less was observed of the worker recently.
  [[nodiscard]] static double possible_cost(const Candidate& candidate, const Candidate& cheapest);
  /// The same, computed from the candidate's cost, from whether it has `fewer` requests than the cheapest, and from its
  /// Forecast::known.
  [[nodiscard]] static double possible_cost(double cost, bool fewer, double known) {
    return fewer ? cost * (1 - kDoubt * (1 - known)) : cost;
  }
  /// Possible costs up to here are a tie.
  [[nodiscard]] static double most_in_tie(const Candidate& cheapest);
  /// The order within a tie: the deeper cache, then the fewer requests that wait for a first token, then the longer
  /// time since this gateway gave it a request, then the lower mean load, then the lower load now, then the lower id.
  using Preference = std::tuple<std::int64_t, std::uint32_t, double, double, std::uint32_t, WorkerId>;
  [[nodiscard]] static Preference preference(const Candidate& candidate, std::uint32_t others);
  /// The choice among candidates that have their costs.
  [[nodiscard]] std::size_t choose_by_cost(const Fleet& fleet, std::span<const Candidate> candidates);
  /// Whether choose_by_cost() would take turns, because the forecasts are too wrong.
  [[nodiscard]] bool would_fall_back(const Fleet& fleet) const {
    return fleet.error > (fallen_back_ ? kErrorToReturn : kErrorToFallBack);
  }

  [[nodiscard]] std::uint64_t state() const override;
  void set_state(std::uint64_t state) override;
  /// Whether the last choice was a turn, because the forecasts were too wrong.
  [[nodiscard]] bool fell_back() const override { return fallen_back_; }
  [[nodiscard]] std::optional<FoundFleet> found() const override { return found_; }

 private:
  [[nodiscard]] static Prices prices_of(const PolicyQuery& query, double waiting) {
    return {.waiting = waiting,
            .later = 1 / query.ttft_weight,
            .recomputed = kRecomputedWeight * query.recomputed * (1 + kOccupation * query.mean_waiting)};
  }

  bool fallen_back_ = false;
  std::optional<WorkerId> last_;  // the worker that had the last turn
  std::optional<FoundFleet> found_;
};

template <class Members>
KvPolicy::Fleet KvPolicy::fleet_of(const PolicyQuery& query, const Members& members) {
  Fleet fleet;
  fleet.any_room = false;
  const std::size_t size = members.size();
  for (std::size_t i = 0; i < size && !fleet.any_room; ++i) fleet.any_room = members.room(i).has_slot;
  // If no worker of the fleet has any room, scarcity does not distinguish them, and no credit is withheld.
  fleet.others = fleet.any_room ? 0 : query.prompt_tokens;
  members.for_each_cached_above(fleet.others, [&](std::size_t i, std::uint32_t tokens) {
    if (!members.room(i).scarce) fleet.others = tokens;
  });
  const Sums sums = members.sums();
  const double waiting = static_cast<double>(sums.waiting) / kPartsWithSlot / static_cast<double>(size);
  fleet.prices = prices_of(query, std::max(0.0, waiting - query.in_transit));
  if (sums.with_error > 0) fleet.error = static_cast<double>(sums.errors) * Sums::kErrorUnit / sums.with_error;
  return fleet;
}

}  // namespace kvist::routing
