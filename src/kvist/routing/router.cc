#include "kvist/routing/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

// An engine computes at least the last prompt token itself: the next token comes of it. So a prompt that is cached
// whole gives one block less.
std::uint32_t usable_cached_tokens(std::uint32_t cached_blocks, std::uint32_t prompt_tokens, std::uint32_t block_size) {
  if (prompt_tokens == 0) return 0;
  return std::min(cached_blocks, (prompt_tokens - 1) / block_size) * block_size;
}

}  // namespace

Router::Router(Options options)
    : workers_(options.workers),
      seed_(options.seed),
      mode_(options.mode),
      policy_(make_policy(options.mode, options.seed)),
      index_({.model = std::move(options.model), .block_size = options.block_size}),
      loads_(options.workers) {}

Result<Decision> Router::route(const RouteQuery& query, std::span<const WorkerView> fleet, TimePoint now) {
  KVIST_CHECK(fleet.size() == workers_, "the fleet has as many workers as the router was made for");
  Decision decision{.worker = {}, .mode = mode_, .candidates = candidates(query, fleet), .at = now};
  if (decision.candidates.empty()) {
    return fail(ErrorCode::kUnavailable, fmt::format("none of the {} workers can take the request now{}", workers_,
                                                     query.excluded.empty() ? "" : " (some were tried before)"));
  }
  const PolicyQuery policy_query{
      .request = query.request, .prompt_tokens = query.prompt_tokens, .block_size = index_.block_size()};
  const Candidate& chosen = decision.candidates[policy_->choose(policy_query, decision.candidates)];
  decision.worker = chosen.worker;
  decision.predicted_cached_tokens = chosen.cached_tokens;
  loads_.add(query.request, chosen.worker, query.prompt_tokens - chosen.cached_tokens, query.blocks);
  ++decisions_[static_cast<std::size_t>(mode_)];
  return decision;
}

std::vector<Candidate> Router::candidates(const RouteQuery& query, std::span<const WorkerView> fleet) const {
  std::vector<std::uint32_t> depths(workers_);
  const auto blocks = view(query.blocks);
  std::vector<std::uint32_t> shared(workers_);
  index_.match(blocks, depths);
  loads_.shared_blocks(blocks, shared);
  std::vector<Candidate> result;
  result.reserve(workers_);
  for (std::uint32_t i = 0; i < workers_; ++i) {
    const WorkerId worker(i);
    if (!fleet[i].available || std::ranges::find(query.excluded, worker) != query.excluded.end()) continue;
    result.push_back({.worker = worker,
                      .cached_blocks = depths[i],
                      .cached_tokens = usable_cached_tokens(depths[i], query.prompt_tokens, index_.block_size()),
                      .new_blocks = static_cast<std::uint32_t>(blocks.size() - shared[i]),
                      .load = loads_.load(worker)});
  }
  return result;
}

std::size_t Router::on_kv_events(WorkerId worker, std::span<const kv::KvEvent> events) {
  std::size_t refused = 0;
  for (const kv::KvEvent& event : events) index_.prefetch(worker, event);
  for (const kv::KvEvent& event : events) {
    if (index_.apply(worker, event)) ++refused;
  }
  return refused;
}

void Router::set_mode(spec::RoutingMode mode) {
  if (mode == mode_) return;
  mode_ = mode;
  policy_ = make_policy(mode, seed_);
}

}  // namespace kvist::routing
