// The router: the rules that narrow down or weigh the workers that may take a request.
#include <algorithm>

#include "kvist/routing/router.h"

namespace kvist::routing {
namespace {

/// A prefix is hot when at least so many prompts in flight share it. Fewer may be one conversation, or chance.
constexpr std::uint32_t kHotPrompts = 8;
/// So many prompts in flight make a copy worth its prefill, whatever share of all they are. Where engines are fast and
/// answers short, a worker has that many of one prefix, and the copy lets them go where the queue is shortest: TTFT p95
/// of short answers was 4 % and p99 5 % lower at 60 and 70 % of the capacity, and at 80 % the same within the error, as
/// were six other workloads at 60 and 80 % (seeds 51 to 64). With 8, p95 was 4 % higher at 80 %; with 48 little was
/// gained.
constexpr std::uint32_t kPromptsPerCopy = 32;
/// A hot prefix has up to twice as many copies as its share of the requests, so that these have a choice: the more wait
/// for their first token on average, the more copies, and one after the other. Not where memory is short. Retrieval at
/// 60, 80 and 95 % of the capacity: TTFT p95 0.96, 0.93 and 0.90 of before, TPOT 0.97, 0.96 and 0.94 (seeds 271 to
/// 273); mixtures, the day, agents and code completion the same within the error (271 to 278). With three times as many
/// p95 of retrieval is 0.99 of that, and that of large fleets whose caches are still empty 1.3 times.
/// What was tried beside this: to add up, by prefix and worker, what requests lost because the prefix was missing where
/// they would have cost least with it, and to make the copy once that comes to its price (as one buys skis when the
/// rents have come to their price), with half of the sum forgotten in 7 s. In closed loops of short answers on three
/// workers TTFT p95 fell by 4 % and was within 3 % of the best other policy's; with copies of nothing but prefixes that
/// eight prompts of 30 s had used, by 1 to 2 %. For any prefix agents and mixtures had a p95 of 1.3 to 1.7 times,
/// because conversations moved, and for those of eight prompts retrieval at 95 % had one of 0.9 to 1.5 times, with up
/// to two points more of goodput (seeds 611 to 653).
constexpr double kMoreCopies = 1;
constexpr double kMoreByWaiting = 5;

}  // namespace

// A session whose worker is no candidate (drained, gone, failed the request) goes elsewhere, and stays there.
void Router::stay_with_session(const RouteQuery& query, TimePoint now) {
  session_worker_ = has_affinity(query) ? sessions_.find(query.session, now) : std::nullopt;
  away_ms_ = 0;
  if (!session_worker_) return;
  if (!usable_.contains(*session_worker_)) return;
  if (affinity_.form == spec::SessionAffinitySpec::Form::kHard) {
    usable_.erase_if([&](const UsableWorker& usable) { return usable.worker != *session_worker_; });
    return;
  }
  away_ms_ = to_milliseconds(affinity_.worth);
}

void Router::note_session(const RouteQuery& query, WorkerId chosen, TimePoint now) {
  if (!has_affinity(query)) return;
  if (session_worker_) ++(*session_worker_ == chosen ? session_counts_.kept : session_counts_.moved);
  sessions_.put(query.session, chosen, now);
}

// The other modes do what is published of them.
void Router::leave_out_new_workers(std::span<const WorkerView> fleet) {
  if (mode_ != spec::RoutingMode::kKv) return;
  const auto is_full = [&](const UsableWorker& usable) {
    const std::uint32_t most = fleet[usable.worker.value()].most_waiting;
    if (most == 0) return false;
    const WorkerLoad& load = loads_.load(usable.worker);
    return load.requests - load.decoding + loads_.assumed(usable.worker) >= most;
  };
  const auto full = static_cast<std::size_t>(std::ranges::count_if(usable_.all(), is_full));
  if (full == 0 || full == usable_.size()) return;
  for (const UsableWorker& usable : usable_.all())
    if (is_full(usable)) held_back_.push_back(usable.worker);
  usable_.erase_if(is_full);
}

// What is in flight is not evicted, whether a request has reused it or not. So the answers so far take memory, and so
// do the parts of prompts that are not reused prefixes. Nothing but reused prefixes can be lost, and the prompt's own
// are not: where requests in flight alone need more than there is, they wait, which the forecast counts by itself.
std::uint64_t Router::displaced_blocks(WorkerId worker, std::size_t prompt_blocks, const EngineLimits& limits) const {
  if (limits.kv_blocks == 0) return 0;
  const std::uint64_t kv_blocks = in_blocks_of(block_size_, limits).kv_blocks;
  const std::size_t i = worker.value();
  const std::uint64_t reused = reused_.blocks(worker) + prompt_blocks - reused_depths_[i];
  const WorkerLoad& load = loads_.load(worker);
  const std::uint64_t in_flight = load.prompt_blocks + prompt_blocks - shared_[i];
  const std::uint64_t prompts = std::max(reused + loads_.own_blocks(worker), in_flight);
  const std::uint64_t all = prompts + load.output_tokens / block_size_;
  return std::min(all - std::min(all, kv_blocks), reused_.blocks(worker) - reused_depths_[i]);
}

// A prefix with which a share of all requests begins should be on that share of the workers, and on more of them if so
// many prompts in flight begin with it that each copy pays (kPromptsPerCopy). The same holds of a share of those that
// wait for their first token, which in a burst behind a new prefix is far larger than that of all in flight: without
// it, dozens of such requests in a row went to one worker, where they waited for 5 s beside seven without a queue. Its
// missing copies cost nothing (Candidate::replicate_tokens), so the next such request may go to any worker that lacks
// one. Without this rule, further copies would appear only when the workers that hold it are overloaded.
void Router::replicate_hot_prefix(const RouteQuery& query) {
  const PrefixUse::Popularity hot = loads_.deepest_shared(view(query.blocks), kHotPrompts);
  if (hot.blocks == 0) return;
  const auto cached_blocks = [&](WorkerId worker) { return depths_.blocks[worker.value()]; };
  const double share = static_cast<double>(hot.prompts * usable_.size()) / static_cast<double>(loads_.requests());
  const std::size_t of_waiting = hot.waiting < kHotPrompts ? 0 : hot.waiting * usable_.size() / loads_.waiting();
  const auto deserved = [&](double more) {
    return std::max({static_cast<std::size_t>(more * share), std::size_t{hot.prompts / kPromptsPerCopy}, of_waiting});
  };
  const double most = 1 + std::min(kMoreCopies, kMoreByWaiting * mean_waiting_);
  std::size_t copies = 0;
  std::size_t computed = 0;
  // Nearly always there are more than enough, of which a part is seen.
  const bool enough = any_that_knows(query, [&, deserved_at_most = deserved(most)](WorkerId worker) {
    copies += cached_blocks(worker) >= hot.blocks ? 1 : 0;
    computed += caches_.computed(worker) >= hot.blocks ? 1 : 0;
    return copies >= deserved_at_most;
  });
  const bool one_more = copies <= computed && ghosts_.recomputed() == 0;
  if (enough || copies == 0 || copies >= deserved(one_more ? most : 1)) return;
  usable_.replicate(depths_.blocks, hot.blocks, block_size_);
}

AdmissionCheck::TurnedDown Router::turned_down_request(const RouteQuery& query, const PolicyQuery& policy_query) const {
  const PrefixUse::Popularity shared = loads_.deepest_shared(view(query.blocks), AdmissionCheck::kShared);
  const auto has_it = [&](const UsableWorker& usable) {
    const std::size_t i = usable.worker.value();
    return std::max(depths_.blocks[i], shared_[i]) >= shared.blocks;
  };
  return {.prompt_tokens = policy_query.prompt_tokens,
          .shared_tokens = shared.blocks * block_size_,
          .sharers = shared.prompts,
          .copies = static_cast<std::uint32_t>(std::ranges::count_if(usable_.all(), has_it)),
          .recomputed = policy_query.recomputed,
          .weighed =
              !policy_->fell_back() && (mode_ == spec::RoutingMode::kKv || mode_ == spec::RoutingMode::kClairvoyant)};
}

// A policy may choose a worker with a long wait although another has none: round robin always, others for a cache. Whom
// kv gives to a worker with a wait, it gives there because every other costs more; only an idle one takes it then.
std::optional<std::size_t> Router::choose_admitted(WorkerId turned_down, const PolicyQuery& policy_query,
                                                   AdmissionCheck& check) {
  std::erase_if(candidates_,
                [&](const Candidate& other) { return other.worker == turned_down || !check.admits(other); });
  if (candidates_.empty()) return std::nullopt;
  return policy_->choose(policy_query, candidates_);
}

}  // namespace kvist::routing
