// The workers that may take a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/routing/fleet_view.h"
#include "kvist/routing/usable_worker.h"
#include "kvist/routing/worker_lanes.h"

namespace kvist::routing {

/// Those of one decision, in ascending order. Most requests of a large fleet may go to any available worker, most of
/// which have cached nothing of it; for these the list is the last one, as long as the fleet is as it was, with another
/// length of the prompt. What differs from worker to worker is in lists that are read several workers at a time.
/// Threads: one.
class UsableWorkers {
 public:
  /// In a fleet of so many workers.
  explicit UsableWorkers(std::size_t workers);

  /// Begins with all available workers, for a prompt of so many tokens of which nothing is cached. Returns whether the
  /// fleet had to be read.
  bool begin_with_available(const FleetView& fleet, std::uint32_t prompt_tokens);
  /// Begins with none, for workers one by one.
  void begin();
  /// Requires: the worker comes behind those that are there, and lacks no copy: replicate() says that.
  void add(const UsableWorker& usable);
  /// The workers have cached so many blocks of the prompt, by their ids in whole lanes. An engine always computes the
  /// last token of a prompt. Requires: the prompt has the same length at all of them.
  void set_cached(std::span<const std::uint32_t> blocks, std::uint32_t block_size);
  /// The first `hot` blocks of the prompt should have another copy: whatever of them a worker lacks that has cached so
  /// many blocks is UsableWorker::replicate_tokens.
  void replicate(std::span<const std::uint32_t> blocks, std::uint32_t hot, std::uint32_t block_size);
  template <class Predicate>
  void erase_if(Predicate predicate);

  [[nodiscard]] bool empty() const { return workers_.empty(); }
  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  [[nodiscard]] UsableWorker operator[](std::size_t position) const {
    const Entry& entry = workers_[position];
    return {.worker = entry.worker,
            .prompt_tokens = prompt_tokens_ + entry.tokens_beside,
            .cached_tokens = cached_[entry.worker.value()],
            .replicate_tokens = lack_copies_ ? missing_[entry.worker.value()] : 0};
  }
  /// A range of them.
  [[nodiscard]] auto all() const {
    return std::views::iota(std::size_t{0}, size()) |
           std::views::transform([this](std::size_t position) { return (*this)[position]; });
  }
  [[nodiscard]] bool contains(WorkerId worker) const { return positions_[worker.value()] != kNone; }
  /// Requires: it contains the worker, as does the next.
  [[nodiscard]] UsableWorker at(WorkerId worker) const { return (*this)[positions_[worker.value()]]; }
  [[nodiscard]] std::size_t position(WorkerId worker) const { return positions_[worker.value()]; }
  /// All workers of the fleet are usable.
  [[nodiscard]] bool is_whole_fleet() const { return workers_.size() == fleet_; }

  /// The length of the prompt at all workers but others(), and the least length at any of them.
  [[nodiscard]] std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  [[nodiscard]] std::uint32_t least_prompt_tokens() const { return least_prompt_tokens_; }
  /// Positions, in any order, of the workers where the prompt has another length.
  [[nodiscard]] std::span<const std::uint32_t> others() const { return others_; }
  /// UsableWorker::cached_tokens by WorkerId, in whole lanes (WorkerLanes); 0 where a worker is not usable.
  [[nodiscard]] std::span<const std::uint32_t> cached() const { return cached_; }
  /// UsableWorker::replicate_tokens, likewise, or empty: they are all 0.
  [[nodiscard]] std::span<const std::uint32_t> missing() const {
    return lack_copies_ ? std::span<const std::uint32_t>(missing_) : std::span<const std::uint32_t>();
  }
  /// Calls visit(worker, cached tokens) for each one with more than `tokens`, which visit() may raise.
  template <class Visit>
  void for_each_cached_above(const std::uint32_t& tokens, Visit visit) const;

  /// The longest prompt that each available worker has room for, with an answer of one token, and whether any is new
  /// (WorkerView::most_waiting). Of the last begin_with_available().
  [[nodiscard]] std::uint32_t longest_prompt() const { return longest_prompt_; }
  [[nodiscard]] bool any_new() const { return any_new_; }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Entry {
    WorkerId worker;
    std::uint32_t tokens_beside = 0;  // what is to be added to prompt_tokens_, modulo 2^32; 0 but in others()
  };

  void read(const FleetView& fleet);

  std::vector<Entry> workers_;
  std::vector<std::uint32_t> positions_;  // by WorkerId, in whole lanes; kNone: not usable
  std::vector<std::uint32_t> others_;
  std::vector<std::uint32_t> cached_;   // by WorkerId, in whole lanes, as is the next
  std::vector<std::uint32_t> missing_;  // what it says counts if some worker lacks a copy
  bool lack_copies_ = false;
  std::uint32_t prompt_tokens_ = 0;
  std::uint32_t least_prompt_tokens_ = 0;
  std::size_t fleet_;          // its workers
  std::uint64_t version_ = 0;  // of the fleet of which these are all available workers; 0: none
  std::uint32_t longest_prompt_ = 0;
  bool any_new_ = false;
};

template <class Visit>
void UsableWorkers::for_each_cached_above(const std::uint32_t& tokens, Visit visit) const {
  for (std::size_t at = 0; at < cached_.size(); at += WorkerLanes::kLanes) {
    const auto more = WorkerLanes::load(cached_.data() + at) > WorkerLanes::all(tokens);
    if (!WorkerLanes::any(more)) continue;
    for (std::size_t i = at; i < at + WorkerLanes::kLanes; ++i)
      if (cached_[i] > tokens) visit(WorkerId(static_cast<std::uint32_t>(i)), cached_[i]);
  }
}

template <class Predicate>
void UsableWorkers::erase_if(Predicate predicate) {
  std::vector<UsableWorker> left;
  for (const UsableWorker& usable : all())
    if (!predicate(usable)) left.push_back(usable);
  if (left.size() == size()) return;
  const bool lack_copies = lack_copies_;
  begin();
  for (const UsableWorker& usable : left) add(usable);
  lack_copies_ = lack_copies;
}

}  // namespace kvist::routing
