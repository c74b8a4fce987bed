// The prompts of the last half a minute, of all workers together, and what comes back of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// Learns which share of prompts goes on with an earlier one, and for how long a prompt has to be kept for those that
/// do: kGaps times the mean time between a prompt's end and the next one that begins with it, so that a conversation
/// whose user thinks, or whose tools run, keeps its place. Threads: the router's. Memory: the hashes of the prompts in
/// flight and of those that ended within kLongest, of which there are at most as many as Bounds says.
class RecentPrompts {
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
  struct Ended {
    TimePoint at;
    WorkerId worker;
    BlockKeys prompt;
  };
  /// Prompts that ended, oldest first.
  class EndedPrompts {
   public:
    void push(Ended ended);
    void pop();
    /// Removes those of a worker, after visit(ended) for each.
    template <class Visit>
    void remove_of(WorkerId worker, Visit visit) {
      std::erase_if(prompts_, [&](const Ended& ended) {
        if (ended.worker != worker) return false;
        visit(ended);
        blocks_ -= view(ended.prompt).size();
        return true;
      });
    }
    /// Whether the oldest one is to be forgotten.
    [[nodiscard]] bool is_due(Duration kept, const Bounds& bounds, TimePoint now) const;
    [[nodiscard]] const Ended& oldest() const { return prompts_.front(); }
    [[nodiscard]] const std::deque<Ended>& all() const { return prompts_; }

   private:
    std::deque<Ended> prompts_;
    std::uint64_t blocks_ = 0;  // of all of them, those that they share counted for each
  };

  explicit RecentPrompts(Bounds bounds) : bounds_(bounds) {}

  /// A prompt begins. end() is to follow, with the same prompt. Returns how many of its leading blocks others have too.
  std::uint32_t begin(const BlockKeys& prompt, TimePoint now);
  /// Requires: the prompt has blocks. `computed`: the worker has it in its cache now.
  void end(WorkerId worker, const BlockKeys& prompt, bool computed, TimePoint now);
  /// Forgets what ended too long ago. Requires: `now` never decreases.
  void expire(TimePoint now);

  /// Those that were computed, and ended within kLongest.
  [[nodiscard]] const std::deque<Ended>& ended() const { return ended_.all(); }
  /// How many there were in all; the last of ended() is the newest of them.
  [[nodiscard]] std::uint64_t ended_in_all() const { return ended_in_all_; }
  /// The share of prompts that go on with an earlier one.
  [[nodiscard]] double return_share() const { return return_share_; }
  /// For how long a prompt counts after its end.
  [[nodiscard]] Duration kept() const { return kept_; }
  [[nodiscard]] const Bounds& bounds() const { return bounds_; }

 private:
  void learn(const BlockKeys& prompt, std::uint32_t depth, TimePoint now);

  Bounds bounds_;
  PrefixUse use_;  // of one worker, because it does not matter where they were
  EndedPrompts ended_;
  std::uint64_t ended_in_all_ = 0;
  FlatMap<kv::BlockHash, TimePoint, RandomSpread> ends_;  // when each ended, by its last block
  double return_share_ = 0;
  double gap_seconds_ = 0;
  Duration kept_ = kShortest;
};

}  // namespace kvist::routing
