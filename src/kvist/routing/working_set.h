// What each worker's cache has to hold so that conversations which go on find theirs.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// The working set of each worker, in blocks: those of prompts in flight, and those of prompts that ended a moment ago
/// and may go on. A least-recently-used cache that is smaller than what its users come back for has nothing of it: each
/// return evicts what the next one will ask for. (Denning, "The Working Set Model for Program Behavior", 1968, with
/// blocks for pages and conversations for programs.)
///
/// For how long a prompt that ended still counts is learned: kGaps times the mean time between a prompt's end and the
/// next one that begins with it, so that a conversation whose user thinks, or whose tools run, keeps its place. And as
/// only some come back, those that ended count by the share of prompts that do. Threads: the router's. Memory: the
/// hashes of the prompts in flight and of those of the last kLongest, of which there are at most as many as Bounds
/// says.
class WorkingSet {
 public:
  static constexpr Duration kShortest = std::chrono::seconds(3);
  static constexpr Duration kLongest = std::chrono::seconds(30);
  static constexpr double kGaps = 3;  ///< 95 % of exponential gaps are shorter
  /// Of one prompt in the means.
  static constexpr double kShare = 1.0 / 64;

  /// Of what ended and is remembered; beyond either the oldest prompts are given up early. A fleet that ends 600
  /// prompts a second for kLongest, or 130 million tokens in blocks of 16, stays below both. Without the second one
  /// 20,000 prompts of 100,000 tokens would take a gigabyte.
  struct Bounds {
    std::size_t prompts = 20'000;
    std::uint64_t blocks = 8'000'000;
  };
  explicit WorkingSet(std::size_t workers) : WorkingSet(workers, Bounds()) {}
  WorkingSet(std::size_t workers, Bounds bounds) : bounds_(bounds), depths_(workers), blocks_(workers) {}

  /// A prompt goes to a worker. end() is to follow, with the same prompt.
  /// Returns how many of its leading blocks prompts of the last kLongest have too.
  std::uint32_t begin(WorkerId worker, const BlockKeys& prompt, TimePoint now);
  /// `computed`: the worker has it in its cache now.
  void end(WorkerId worker, const BlockKeys& prompt, bool computed, TimePoint now);
  /// Forgets what ended too long ago. Requires: `now` never decreases, also between begin() and end().
  void expire(TimePoint now);
  /// The worker's cache is empty: nothing that ended there can go on.
  void clear(WorkerId worker);

  /// The distinct blocks of the worker's working set.
  [[nodiscard]] std::uint64_t blocks(WorkerId worker) const { return blocks_[worker.value()]; }
  /// How many leading blocks of the prompt are in each worker's working set, by WorkerId. Valid until the next call.
  [[nodiscard]] std::span<const std::uint32_t> depths(const BlockKeys& prompt);
  /// The share of prompts that go on with an earlier one of the last kLongest.
  [[nodiscard]] double return_share() const { return return_share_; }
  /// For how long a prompt counts after its end.
  [[nodiscard]] Duration kept() const { return kept_; }

 private:
  struct Ended {
    TimePoint at;
    WorkerId worker;
    BlockKeys prompt;
  };
  /// By time.
  struct EndedPrompts {
    std::deque<Ended> prompts;
    std::uint64_t blocks = 0;  // of all of them, those that they share counted for each

    void push(Ended ended);
    void pop();
  };
  [[nodiscard]] bool is_due(const EndedPrompts& ended, Duration kept, TimePoint now) const;
  void take_out(const Ended& ended);
  void learn(const BlockKeys& prompt, std::uint32_t depth, TimePoint now);

  Bounds bounds_;
  PrefixUse set_;
  std::vector<std::uint32_t> depths_;  // by WorkerId, as is the next
  std::vector<std::uint64_t> blocks_;
  EndedPrompts ended_;  // in the set
  // For what is learned: prompts of all workers that began or ended within kLongest, and when each ended, by its last
  // block.
  PrefixUse recent_;
  EndedPrompts recent_ends_;
  FlatMap<kv::BlockHash, TimePoint, RandomMultiplier> ends_;
  double return_share_ = 0;
  double gap_seconds_ = 0;
  Duration kept_ = kShortest;
};

}  // namespace kvist::routing
