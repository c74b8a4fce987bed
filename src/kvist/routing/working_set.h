// What each worker's cache has to hold so that conversations which go on find theirs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/prefix_use.h"
#include "kvist/routing/recent_prompts.h"

namespace kvist::routing {

/// The working set of each worker, in blocks: those of prompts in flight, and those of prompts that ended a moment ago
/// and may go on. A least-recently-used cache that is smaller than what its users come back for has nothing of it: each
/// return evicts what the next one will ask for. (Denning, "The Working Set Model for Program Behavior", 1968, with
/// blocks for pages and conversations for programs.)
///
/// For how long a prompt that ended still counts is learned, and as only some come back, those that ended count by the
/// share of prompts that do (RecentPrompts). By worker it is kept only while somebody asks: it is made anew from the
/// prompts in flight and the recent ones, because most fleets never need it, and keeping it takes a third of a decision
/// among 1,000 workers. Threads: the router's. Memory: as RecentPrompts, and the same once more while somebody asks.
class WorkingSet {
 public:
  using Bounds = RecentPrompts::Bounds;
  /// After so long without open() the sets of workers are given up.
  static constexpr Duration kUnasked = std::chrono::seconds(60);

  explicit WorkingSet(std::size_t workers) : WorkingSet(workers, Bounds()) {}
  WorkingSet(std::size_t workers, Bounds bounds)
      : recent_(bounds), depths_(workers), blocks_(workers), emptied_(workers) {}

  /// A prompt goes to a worker. end() is to follow, with the same prompt. Returns how many of its leading blocks recent
  /// prompts have too.
  std::uint32_t begin(WorkerId worker, const BlockKeys& prompt, TimePoint now);
  /// `computed`: the worker has it in its cache now.
  void end(WorkerId worker, const BlockKeys& prompt, bool computed, TimePoint now);
  /// Forgets what ended too long ago. Requires: `now` never decreases, also between begin(), computed end() and open().
  void expire(TimePoint now);
  /// The worker's cache is empty: nothing that ended there can go on.
  void clear(WorkerId worker);

  /// The next two can be called until time goes on. `for_each(visit)` calls visit(worker, prompt) for all that began
  /// and did not end.
  template <class ForEach>
  void open(TimePoint now, ForEach for_each) {
    asked_ = now;
    if (!is_open_) {
      for_each([this](WorkerId worker, const BlockKeys& prompt) { put_in(worker, prompt); });
      add_recent(now);
      is_open_ = true;
    }
    expire(now);
  }
  [[nodiscard]] bool is_open() const { return is_open_; }
  /// The distinct blocks of the worker's working set. Requires: it is open.
  [[nodiscard]] std::uint64_t blocks(WorkerId worker) const { return blocks_[worker.value()]; }
  /// How many leading blocks of the prompt are in each worker's working set, by WorkerId. Valid until the next call.
  /// Requires: it is open.
  [[nodiscard]] std::span<const std::uint32_t> depths(const BlockKeys& prompt);

  [[nodiscard]] const RecentPrompts& recent() const { return recent_; }

 private:
  void put_in(WorkerId worker, const BlockKeys& prompt) { blocks_[worker.value()] += set_.add(worker, prompt); }
  void take_out(WorkerId worker, const BlockKeys& prompt) { blocks_[worker.value()] -= set_.remove(worker, prompt); }
  void add_recent(TimePoint now);
  void close();

  RecentPrompts recent_;
  bool is_open_ = false;
  TimePoint asked_;
  PrefixUse set_;
  RecentPrompts::EndedPrompts ended_;  // in the set
  std::vector<std::uint32_t> depths_;  // by WorkerId, as are the next
  std::vector<std::uint64_t> blocks_;
  std::vector<std::uint64_t> emptied_;  // RecentPrompts::ended_in_all() when its cache was empty for the last time
};

}  // namespace kvist::routing
