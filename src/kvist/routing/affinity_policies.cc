#include "kvist/routing/affinity_policies.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

// Block hashes are chained, so one of them identifies all tokens up to its block's end.
std::uint64_t key_of(const PolicyQuery& query, std::uint32_t prefix_tokens) {
  if (query.blocks.empty()) return 0;
  const std::size_t blocks = std::clamp<std::size_t>(prefix_tokens / query.block_size, 1, query.blocks.size());
  return query.blocks[blocks - 1].value();
}

// Returns the index of the key's worker among the candidates. Ensures: every candidate is on the ring.
template <class Accepts>
std::size_t first_on_ring(HashRing& ring, std::uint64_t key, std::span<const Candidate> candidates, Accepts accepts) {
  // In powers of two, because a ring that grows is sorted anew. Workers that are no candidates are passed over.
  ring.cover(std::bit_ceil(candidates.back().worker.value() + 1));
  std::size_t found = candidates.size();
  const auto worker = ring.first(key, [&](WorkerId on_ring) {
    found = position_of(candidates, on_ring);
    return found < candidates.size() && accepts(candidates[found]);
  });
  KVIST_CHECK(worker.has_value(), "some candidate is acceptable");
  return found;
}

constexpr auto kAny = [](const Candidate& /*candidate*/) { return true; };

}  // namespace

void HashRing::cover(std::uint32_t workers) {
  if (workers <= workers_) return;
  const std::uint64_t purpose = seed_part("hash ring");
  points_.reserve(std::size_t{workers} * points_per_worker_);
  for (; workers_ < workers; ++workers_) {
    for (std::uint32_t i = 0; i < points_per_worker_; ++i) {
      points_.push_back({.at = mix_seed({purpose, workers_, i}), .worker = WorkerId(workers_)});
    }
  }
  // Should two points be equal, the worker decides, so that the order is always the same.
  std::ranges::sort(points_, {}, [](const Point& point) { return std::pair(point.at, point.worker); });
}

std::size_t HashRing::place_of(std::uint64_t key) const {
  const std::uint64_t at = mix_seed({seed_part("ring key"), key});
  return static_cast<std::size_t>(std::ranges::lower_bound(points_, at, {}, &Point::at) - points_.begin());
}

std::size_t BoundedHashPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  std::uint64_t total = 0;
  for (const Candidate& candidate : candidates) total += candidate.load.requests;
  // Load and mean both include this request. An idle fleet has no bound, because with a mean below one every worker
  // would be above it.
  const double most =
      total == 0 ? std::numeric_limits<double>::infinity()
                 : options_.load_factor * static_cast<double>(total + 1) / static_cast<double>(candidates.size());
  bool any = false;
  for (Candidate& candidate : candidates) {
    const bool within = candidate.load.requests + 1 <= most;
    candidate.cost = within ? 1 : std::numeric_limits<double>::infinity();
    any = any || within;
  }
  const std::uint64_t key = key_of(query, options_.prefix_tokens);
  const std::size_t chosen =
      any ? first_on_ring(ring_, key, candidates, [](const Candidate& candidate) { return candidate.cost == 1; })
          : first_on_ring(ring_, key, candidates, kAny);
  candidates[chosen].cost = 0;
  return chosen;
}

std::size_t SessionPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  if (query.session == 0) return without_session_.choose(query, candidates);
  for (Candidate& candidate : candidates) candidate.cost = 1;
  const std::size_t chosen = first_on_ring(ring_, query.session, candidates, kAny);
  candidates[chosen].cost = 0;
  return chosen;
}

}  // namespace kvist::routing
