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

namespace kvist::routing {

/// Those of one decision, in ascending order. Most requests of a large fleet may go to any available worker, most of
/// which have cached nothing of it; for these the list is the last one, as long as the fleet is as it was, with another
/// length of the prompt. So the next decision only touches the workers at which the last one was something else.
/// Threads: one.
class UsableWorkers {
 public:
  /// In a fleet of so many workers.
  explicit UsableWorkers(std::size_t workers) : positions_(workers, kNone) {}

  /// Begins with all available workers, for a prompt of so many tokens of which nothing is cached. Returns whether the
  /// fleet had to be read.
  bool begin_with_available(const FleetView& fleet, std::uint32_t prompt_tokens);
  /// Begins with none, for workers one by one.
  void begin();
  /// Requires: the worker comes behind those that are there.
  void add(const UsableWorker& usable);
  /// The worker has cached so many tokens. Requires: each worker is named once. Does nothing for one that is not here.
  void set_cached(WorkerId worker, std::uint32_t tokens);
  /// Sets UsableWorker::replicate_tokens of each worker for which `tokens(usable)` is not 0.
  template <class Tokens>
  void replicate(Tokens tokens);
  template <class Predicate>
  void erase_if(Predicate predicate);

  [[nodiscard]] bool empty() const { return workers_.empty(); }
  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  [[nodiscard]] UsableWorker operator[](std::size_t position) const {
    const Entry& entry = workers_[position];
    return {.worker = entry.worker,
            .prompt_tokens = prompt_tokens_ + entry.tokens_beside,
            .cached_tokens = entry.cached_tokens,
            .replicate_tokens = entry.replicate_tokens};
  }
  /// A range of them.
  [[nodiscard]] auto all() const {
    return std::views::iota(std::size_t{0}, size()) |
           std::views::transform([this](std::size_t position) { return (*this)[position]; });
  }
  [[nodiscard]] bool contains(WorkerId worker) const { return positions_[worker.value()] != kNone; }
  /// Requires: it contains the worker.
  [[nodiscard]] UsableWorker at(WorkerId worker) const { return (*this)[positions_[worker.value()]]; }
  /// All workers of the fleet are usable.
  [[nodiscard]] bool is_whole_fleet() const { return workers_.size() == positions_.size(); }

  /// The length of the prompt at all workers but some of others(), and the least length at any of them.
  [[nodiscard]] std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  [[nodiscard]] std::uint32_t least_prompt_tokens() const { return least_prompt_tokens_; }
  /// Positions, in any order, of the workers for which the request is not just prompt_tokens() that are not cached.
  [[nodiscard]] std::span<const std::uint32_t> others() const { return others_; }

  /// The longest prompt that each available worker has room for, with an answer of one token, and whether any is new
  /// (WorkerView::most_waiting). Of the last begin_with_available().
  [[nodiscard]] std::uint32_t longest_prompt() const { return longest_prompt_; }
  [[nodiscard]] bool any_new() const { return any_new_; }

 private:
  static constexpr std::uint32_t kNone = ~0U;
  /// As UsableWorker. Invariant: only in others() is anything but the worker not 0.
  struct Entry {
    WorkerId worker;
    std::uint32_t tokens_beside = 0;  // what is to be added to prompt_tokens_, modulo 2^32
    std::uint32_t cached_tokens = 0;
    std::uint32_t replicate_tokens = 0;
    [[nodiscard]] bool is_plain() const { return (tokens_beside | cached_tokens | replicate_tokens) == 0; }
  };

  void read(const FleetView& fleet);

  std::vector<Entry> workers_;
  std::vector<std::uint32_t> positions_;  // by WorkerId; kNone: not usable
  std::vector<std::uint32_t> others_;
  std::uint32_t prompt_tokens_ = 0;
  std::uint32_t least_prompt_tokens_ = 0;
  std::uint64_t version_ = 0;  // of the fleet of which these are all available workers; 0: none
  std::uint32_t longest_prompt_ = 0;
  bool any_new_ = false;
};

template <class Tokens>
void UsableWorkers::replicate(Tokens tokens) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::uint32_t missing = tokens((*this)[i]);
    if (missing == 0) continue;
    if (workers_[i].is_plain()) others_.push_back(static_cast<std::uint32_t>(i));
    workers_[i].replicate_tokens = missing;
  }
}

template <class Predicate>
void UsableWorkers::erase_if(Predicate predicate) {
  std::vector<UsableWorker> left;
  for (const UsableWorker& usable : all())
    if (!predicate(usable)) left.push_back(usable);
  if (left.size() == size()) return;
  begin();
  for (const UsableWorker& usable : left) add(usable);
}

}  // namespace kvist::routing
